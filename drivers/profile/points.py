"""What a profile says of one point: scale, unit, sentinels, plausible range, and writing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from drivers.profile.places import (
    DelayS,
    DurationS,
    Part,
    Strict,
    UnitSwitch,
    Where,
    quantity_of,
    unit_factors,
)
from facility.kinds import KINDS, Nature


class Write(Strict):
    """What may be written, and how to see that it happened.

    Attributes:
        min, max, step: in the point's kind, as text with a unit.
        settle: wait before reading back.
        readback: where the value in force is shown; the point itself by default.
        fallback: what the device should do on its own when nobody writes any more.
        watchdog: after how long without a write the device falls back by itself, if it does.
        every: the least time between two writes, where the device wears out or needs a rest.
        idempotent: whether the same value twice does what it does once; see
            `drivers.writing.idempotent` for what counts where this says nothing.
        function: of Modbus, 6 or 16 where the device insists on one of them; else one register
            is written with 6 and more with 16.
    """

    min: str
    max: str
    step: str
    settle: DelayS = 0.0
    readback: Where | None = None
    fallback: str | None = None
    watchdog: DurationS | None = None
    every: DurationS | None = None
    idempotent: bool | None = None
    function: Literal[6, 16] | None = None


class Simulated(Strict):
    """What an impersonator answers for things that its plant does not know.

    Attributes:
        value: reading in the kind's canonical unit where the plant has no such instrument;
            without it the impersonator sends the sentinel, or says that there is no such thing.
        digits: decimals it claims, where the point has `digits`.
    """

    value: float | None = None
    digits: Annotated[int, Field(ge=0, le=6)] = 0


class PointEntry(Strict):
    """One point, or one per row of a table (its part then ends in `.*`).

    value in `unit` = raw x scale x 10^-digits + offset, after raw sentinels are taken out.

    Attributes:
        poll: poll class, a key of the profile's `classes`.
        digits: where the device tells the number of decimals.
        unit: of the scaled number; `unit_from` overrides it with what the device says.
        codes: raw code -> the code of this point's kind; codes not listed are undecodable.
        states: code -> name, for people.
        sentinels: raw patterns that mean "no value": integers (as sent, or as a bit pattern of
            the register type) or texts. Checked before scaling.
        plausible: narrower than the kind's own range, as two texts with a unit.
        absolute: the device puts a sign to it that means something else (the kind of load, the
            way in or out); the value is without it.
        optional: some models lack it; its absence is then no fault worth showing.
        wraps_at: of a counter, the value with its unit at which its register starts again from 0.
        simulated: how an impersonator answers where its plant does not say.
    """

    part: Part
    kind: str
    at: Where
    poll: str = "fast"
    table: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    digits: Where | None = None
    unit: str | None = None
    unit_from: UnitSwitch | None = None
    codes: Mapping[int, int] = Field(default_factory=dict)
    states: Mapping[int, str] = Field(default_factory=dict)
    sentinels: tuple[int | str, ...] = ()
    plausible: tuple[str, str] | None = None
    absolute: bool = False
    optional: bool = False
    write: Write | None = None
    wraps_at: str | None = None
    simulated: Simulated = Field(default_factory=lambda: Simulated())

    @model_validator(mode="after")
    def _meaning(self) -> PointEntry:
        if self.kind not in KINDS:
            raise ValueError(f"no kind {self.kind!r}; kinds are: {', '.join(KINDS)}")
        kind = KINDS[self.kind]
        if self.scale == 0.0:
            raise ValueError("scale 0 would turn every reading into the same number")
        if self.unit is not None:
            unit_factors(kind, self.unit)
        for unit in (self.unit_from.codes if self.unit_from else {}).values():
            unit_factors(kind, unit)
        low, high = self.range
        if not low < high or low < kind.low or high > kind.high:
            raise ValueError(f"plausible range must lie within {kind.low} to {kind.high}")
        if (self.table is not None) != self.part.endswith(".*"):
            raise ValueError("a part ends in .* exactly when the point stands in a table")
        modbus = self.at.modbus
        if modbus is not None and (modbus.stride is not None) != (self.table is not None):
            raise ValueError("`stride` is needed in a table, and only there")
        page = self.at.prometheus
        if page is not None and (page.row is not None) != (self.table is not None):
            raise ValueError("`row` is needed in a table, and only there")
        if page is not None and page.text is not None:
            raise ValueError("`text` is for identity; a point is a number")
        if page is not None and page.take in ("sum", "mean") and kind.nature is Nature.COUNTER:
            raise ValueError(f"{self.kind} is a counter: take `count`, which bridges restarts")
        if page is not None and page.take == "count" and kind.nature is not Nature.COUNTER:
            raise ValueError(f"only counters are counted up, and {self.kind} is none")
        if self.wraps_at is not None:
            if kind.nature is not Nature.COUNTER:
                raise ValueError(f"only counters wrap, and {self.kind} is none")
            if self.resolution >= quantity_of(self.wraps_at, kind):
                raise ValueError("wraps_at must lie above one step of the register")
        if self.write is not None:
            if modbus is not None and modbus.function in ("input", "discrete"):
                raise ValueError(f"{modbus.function} registers cannot be written")
            if modbus is not None and (
                modbus.bit is not None or modbus.bits is not None or modbus.type == "text"
            ):
                raise ValueError("a bit of a register, or a text, cannot be written")
            if self.write.function is not None and (modbus is None or modbus.function != "holding"):
                raise ValueError("write.function is for holding registers")
            if self.write.function == 6 and modbus is not None and modbus.count != 1:
                raise ValueError("function 6 writes one register; this type has more")
            least, most = quantity_of(self.write.min, kind), quantity_of(self.write.max, kind)
            if not least < most:
                raise ValueError("write.min must lie below write.max")
            if self.step_of(self.write) <= 0.0:
                raise ValueError("write.step must be above zero")
        return self

    def step_of(self, write: Write) -> float:
        """The step in canonical units: a difference, so a unit's offset does not enter."""
        kind = KINDS[self.kind]
        number, _, unit = write.step.strip().partition(" ")
        unit = "degC" if unit == "K" and kind.quantity == "temperature" else unit
        return float(number) * unit_factors(kind, unit)[0]

    @property
    def resolution(self) -> float:
        """Step of the register in canonical units; the greatest, where the device has a choice."""
        kind = KINDS[self.kind]
        units = {self.unit, *(self.unit_from.codes.values() if self.unit_from else ())}
        factors = [1.0 if unit is None else unit_factors(kind, unit)[0] for unit in units]
        return max(abs(self.scale * factor) for factor in factors)

    @property
    def range(self) -> tuple[float, float]:
        """Plausible range in the kind's canonical unit."""
        kind = KINDS[self.kind]
        if self.plausible is None:
            return kind.low, kind.high
        return quantity_of(self.plausible[0], kind), quantity_of(self.plausible[1], kind)


class Sum(Strict):
    """A point that the device does not have, but whose rows add up to it (a UPS's three lines).

    Attributes:
        part, kind: what the sum is called.
        of: the parts without their rows, e.g. `output` for a table's `output.*` or for points that
            stand side by side, `output.1` to `output.3`; same kind, same poll class.
    """

    part: Part
    kind: str
    of: str


def wheres(entry: PointEntry) -> tuple[Where, ...]:
    """Every place that a point's entry names."""
    found: list[Any] = [entry.at, entry.digits]
    found.append(entry.unit_from.at if entry.unit_from else None)
    found.append(entry.write.readback if entry.write else None)
    return tuple(w for w in found if w is not None)
