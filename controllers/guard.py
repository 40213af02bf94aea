"""The last thing before the wire: standing orders that no controller can argue with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from facility.commands import Bounds, Command, Mode
from facility.config import AllowWrites
from facility.points import PointId


@dataclass(frozen=True, slots=True)
class Draft:
    """A write that a controller would like to see sent.

    Attributes:
        present: the value in force, None when unknown.
        raises: whether it moves the plant towards its limit (a cap up, a set-point up).
        data_good: whether everything it rests on is good enough to act on.
        doubt: what is not good, for people.
    """

    point: PointId
    value: float
    present: float | None
    raises: bool
    because: str
    data_good: bool = True
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """Hard limits of one point, from profile and site: value, and the largest single move."""

    room: Bounds
    max_step: float = math.inf


@dataclass(frozen=True)
class StandingOrders:
    """What must hold for any write.

    Attributes:
        enabled: `control.enabled` of the file.
        allow: the site's allow-list, each entry with who authorised it.
        mode_of: mode in force of a point.
        limits: per point; a point that is missing here is never written.
        epoch: of a lease held now; None: lowerings only, under `last_epoch`.
        last_epoch: of the lease last held; None: nothing may be sent at all.
        journal_ok: whether intents can be committed; if not, lowerings only.
    """

    enabled: bool
    allow: Sequence[AllowWrites]
    mode_of: Callable[[PointId], Mode]
    limits: Mapping[PointId, WriteLimits]
    epoch: int | None
    last_epoch: int | None
    journal_ok: bool


def authoriser(point: PointId, allow: Sequence[AllowWrites]) -> str | None:
    """Who let Wattkeeper write to `point`; None if nobody did. `*` matches any one part."""
    for entry in allow:
        pattern = entry.points.split(":")
        if len(pattern) == 3 and all(
            p in ("*", part) for p, part in zip(pattern, point, strict=True)
        ):
            return entry.by
    return None


def refusal(draft: Draft, orders: StandingOrders) -> str | None:
    """Why a draft must not be sent; None if it may."""
    mode = orders.mode_of(draft.point)
    limits = orders.limits.get(draft.point)
    if not orders.enabled:
        return "control is not enabled in the facility file"
    if mode is not Mode.AUTO:
        return f"mode {mode.value}: shown, not written"
    if authoriser(draft.point, orders.allow) is None:
        return "not on the site's allow-list"
    if not math.isfinite(draft.value):
        return "the value is not a number"
    if limits is None:
        return "no hard limits are known for this point"
    if not limits.room.low <= draft.value <= limits.room.high:
        return f"outside the hard limits {limits.room.low:g} to {limits.room.high:g}"
    if draft.present is not None and abs(draft.value - draft.present) > limits.max_step + 1e-9:
        return f"a move of {abs(draft.value - draft.present):g} is above {limits.max_step:g}"
    if draft.raises and orders.epoch is None:
        return "no valid lease: lowering only"
    if orders.last_epoch is None and orders.epoch is None:
        return "no lease was ever held"
    if draft.raises and not orders.journal_ok:
        return "the journal cannot be written: lowering only"
    if draft.raises and not draft.data_good:
        return f"data not good enough: {draft.doubt or 'unknown'}"
    return None


def check(
    drafts: Sequence[Draft],
    orders: StandingOrders,
    *,
    sequence: int,
    now_ms: int,
    deadline_s: float = 2.0,
) -> tuple[tuple[Command, ...], tuple[tuple[PointId, float, str], ...]]:
    """Commands in write order (lowerings first) and what was withheld, with why.

    The first command gets `sequence` + 1; sequences rise in write order.
    """
    sent: list[Command] = []
    withheld: list[tuple[PointId, float, str]] = []
    epoch = orders.epoch if orders.epoch is not None else orders.last_epoch
    for draft in sorted(drafts, key=lambda d: (d.raises, d.point)):
        why = refusal(draft, orders)
        if why is not None or epoch is None:
            withheld.append((draft.point, draft.value, why or "no lease was ever held"))
            continue
        sequence += 1
        sent.append(
            Command(
                draft.point,
                draft.value,
                sequence,
                epoch,
                now_ms,
                deadline_s,
                draft.because,
                draft.raises,
            )
        )
    return tuple(sent), tuple(withheld)
