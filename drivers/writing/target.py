"""What a write means in the register it goes to, and what its read-back says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.profile.binding import BoundPoint, Limits, limits_of
from drivers.profile.codec import Answer, Raw, decode, encode, whole
from facility.commands import Outcome
from facility.kinds import Nature
from facility.points import Flaw, Grade, grade_of


@dataclass(frozen=True, slots=True)
class Target:
    """One value on its way to one register.

    Attributes:
        wanted: as asked, on the profile's step; canonical unit.
        raw: what goes out.
        held: what the register then holds: `wanted`, rounded to its counts.
        slack: how far a read-back may lie from it: half a count, or half a step where finer.
    """

    wanted: float
    raw: Raw
    held: float
    slack: float

    def same(self, a: float, b: float) -> bool:
        """Whether two readings of the register are one value."""
        return abs(a - b) <= self.slack + 1e-6 * max(abs(a), abs(b))

    def took(self, actual: float | None) -> bool:
        """Whether a reading shows the value."""
        return actual is not None and (
            self.same(actual, self.held) or self.same(actual, self.wanted)
        )

    def judged(
        self, before: float | None, actual: float | None, acknowledged: bool, word: str
    ) -> tuple[Outcome, str]:
        """What became of the write, and in which words.

        Args:
            before: the value in force before it; None if it could not be read.
            actual: the value in force at last; None if it could not be read.
            acknowledged: whether the device said yes; what it refused never comes here.
            word: what the wire said where it did not.
        """
        unsure = "" if acknowledged else f"not acknowledged ({word}); "
        if actual is None:
            return Outcome.UNANSWERED, f"{unsure}the value could not be read back"
        if self.took(actual):
            return Outcome.APPLIED, f"{unsure}read back"
        if unsure:
            return Outcome.UNANSWERED, f"{unsure}read back {actual:g}"
        if before is not None and self.same(actual, before):
            return Outcome.REJECTED, f"acknowledged, but the value in force is still {actual:g}"
        return Outcome.CLAMPED, f"asked {self.wanted:g}, got {actual:g}"


def idempotent(point: BoundPoint) -> bool:
    """Whether sending the same value twice leaves the device as sending it once does.

    What the profile says counts. Where it says nothing, a set-point of a physical quantity is (it
    holds a level), and everything else is not: a second "1" may be a second pulse, or a reboot.
    """
    write = point.entry.write
    if write is None or write.idempotent is not None:
        return write is not None and bool(write.idempotent)
    kind = point.spec.kind
    return kind.nature is Nature.SETPOINT and kind.quantity is not None


def on_step(value: float, limits: Limits) -> float:
    """The step of the profile nearest to a value within its bounds."""
    steps = round((value - limits.low) / limits.step)
    return min(limits.low + steps * limits.step, limits.high)


def target_of(
    point: BoundPoint, value: float, digits: Answer | None = None, unit: Answer | None = None
) -> Target | None:
    """The target of a writable point; None when its register cannot hold the value.

    Args:
        point: with bounds for writing.
        value: finite, canonical unit.
        digits: raw of the device's own number of decimals, where the point has one.
        unit: raw of its own unit setting, where the point has one.
    """
    limits = limits_of(point.entry)
    if limits is None:
        return None
    wanted = on_step(value, limits)
    decimals = 0 if point.digits is None else _whole(point, "digits", digits)
    code = None if point.unit_at is None else _whole(point, "unit_at", unit)
    if isinstance(decimals, Flaw) or isinstance(code, Flaw) or not -12 <= decimals <= 12:
        return None
    raw = encode(point, wanted, decimals, code)
    if raw is None:
        return None
    held = decode(point, raw, digits, unit)
    if grade_of(held.quality) is Grade.BAD:
        return None
    factor = point.factors[0] if code is None else point.switched[code][0]
    count = abs(point.entry.scale * factor) / 10.0**decimals
    return Target(wanted, raw, held.value, 0.5 * min(count, limits.step))


def _whole(point: BoundPoint, name: str, answer: Answer | None) -> int | Flaw:
    at = getattr(point, name)
    return whole(at, Flaw.TIMEOUT if answer is None else answer)
