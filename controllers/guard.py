"""The last thing before the wire: standing orders that no controller can argue with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from facility.commands import Bounds, Command, Mode
from facility.config import AllowWrites
from facility.points import FloatArray, PointId

BoolArray = npt.NDArray[np.bool_]
Withheld = tuple[PointId, float, str]
NO_LEASE: Final = "no lease was ever held"


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


@dataclass(frozen=True, eq=False)
class Drafts:
    """Drafts of one kind as columns, K of them; each row is a `Draft` and its standing orders.

    Attributes:
        points: of each row, in order of name.
        value, present: float64[K]; raises, data_good: bool[K].
        activity: int64[K], `Mode.activity` of the mode in force.
        authorised: bool[K], the site's allow-list names the point.
        low, high: float64[K], hard limits.
        because: the reasons of some rows, asked for when their commands are made.
        doubt: what is not good where the data are not.
    """

    points: Sequence[PointId]
    value: FloatArray
    present: FloatArray
    raises: BoolArray
    data_good: BoolArray
    activity: npt.NDArray[np.int64]
    authorised: BoolArray
    low: FloatArray
    high: FloatArray
    because: Callable[[Sequence[int]], list[str]]
    doubt: str

    def __len__(self) -> int:
        return len(self.points)

    def refused(self, orders: StandingOrders) -> BoolArray:
        """bool[K]: rows that must not be sent; see `refusal`."""
        held, kept = orders.epoch is not None, orders.last_epoch is not None
        out: BoolArray = np.asarray(self.activity != Mode.AUTO.activity)
        out |= ~self.authorised | ~np.isfinite(self.value)
        with np.errstate(invalid="ignore"):
            out |= ~((self.low <= self.value) & (self.value <= self.high))
        out |= self.raises & ~self.data_good
        if not held or not orders.journal_ok:
            out |= self.raises
        if not orders.enabled or not (held or kept):
            out = np.ones(len(self.points), dtype=np.bool_)
        return out

    def only(self, which: BoolArray) -> Drafts:
        """The rows of which `which` (bool[K]) is true."""
        rows = np.flatnonzero(which).tolist()
        return Drafts(
            [self.points[row] for row in rows],
            self.value[which],
            self.present[which],
            self.raises[which],
            self.data_good[which],
            self.activity[which],
            self.authorised[which],
            self.low[which],
            self.high[which],
            lambda some: self.because([rows[row] for row in some]),
            self.doubt,
        )

    def writes(
        self, rows: Sequence[int], why: Sequence[str]
    ) -> list[tuple[bool, PointId, float, str]]:
        """Whether it raises, point, value and words of some rows."""
        raises, values = self.raises.tolist(), self.value.tolist()
        return [
            (raises[row], self.points[row], values[row], words)
            for row, words in zip(rows, why, strict=True)
        ]

    def draft(self, row: int) -> Draft:
        """One row."""
        return Draft(
            self.points[row],
            float(self.value[row]),
            float(self.present[row]),
            bool(self.raises[row]),
            self.because([row])[0],
            bool(self.data_good[row]),
            self.doubt,
        )


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
        return NO_LEASE
    if draft.raises and not orders.journal_ok:
        return "the journal cannot be written: lowering only"
    if draft.raises and not draft.data_good:
        return f"data not good enough: {draft.doubt or 'unknown'}"
    return None


def _row_refusal(drafts: Drafts, row: int, orders: StandingOrders) -> str | None:
    """`refusal` of one row."""
    mode = next(m for m in Mode if m.activity == drafts.activity[row])
    point = drafts.points[row]
    room = Bounds(float(drafts.low[row]), float(drafts.high[row]))
    mine = replace(
        orders,
        mode_of=lambda _: mode,
        allow=(AllowWrites(points=str(point), by=""),) if drafts.authorised[row] else (),
        limits={point: WriteLimits(room)},
    )
    return refusal(drafts.draft(row), mine)


def _refusals(drafts: Drafts, rows: Sequence[int], orders: StandingOrders) -> list[str]:
    """`refusal` of some rows, worked out once for all that are alike."""
    with np.errstate(invalid="ignore"):
        inside = (drafts.low <= drafts.value) & (drafts.value <= drafts.high)
    flags = (drafts.raises, drafts.data_good, drafts.authorised)
    alike = sum((flag.astype(np.int64) << i for i, flag in enumerate(flags)), drafts.activity << 3)
    found: dict[int, str] = {}
    out: list[str] = []
    kinds, within = alike.tolist(), inside.tolist()
    for row in rows:
        words = found.get(kinds[row]) if within[row] else None
        if words is None:
            words = _row_refusal(drafts, row, orders) or NO_LEASE
            if within[row]:
                found[kinds[row]] = words
        out.append(words)
    return out


def check(
    drafts: Sequence[Draft],
    orders: StandingOrders,
    *,
    sequence: int,
    now_ms: int,
    deadline_s: float = 2.0,
    columns: Drafts | None = None,
) -> tuple[tuple[Command, ...], tuple[Withheld, ...]]:
    """Commands in write order (lowerings first) and what was withheld, with why.

    The first command gets `sequence` + 1; sequences rise in write order.

    Args:
        drafts: one by one.
        orders: what must hold for any write.
        sequence: of the last command.
        now_ms: UTC.
        deadline_s: of each command.
        columns: drafts of points that are none of `drafts`.
    """
    fit: list[tuple[bool, PointId, float, str]] = []
    unfit: list[tuple[bool, PointId, float, str]] = []
    epoch = orders.epoch if orders.epoch is not None else orders.last_epoch
    for draft in drafts:
        why = refusal(draft, orders)
        if why is not None or epoch is None:
            unfit.append((draft.raises, draft.point, draft.value, why or NO_LEASE))
        else:
            fit.append((draft.raises, draft.point, draft.value, draft.because))
    if columns is not None and len(columns):
        refused = columns.refused(orders)
        rows = np.flatnonzero(~refused).tolist()
        fit += columns.writes(rows, columns.because(rows))
        rows = np.flatnonzero(refused).tolist()
        unfit += columns.writes(rows, _refusals(columns, rows, orders))
    fit.sort(key=itemgetter(0, 1))
    unfit.sort(key=itemgetter(0, 1))
    sent = tuple(
        Command(point, value, number, epoch or 0, now_ms, deadline_s, why, raises)
        for number, (raises, point, value, why) in enumerate(fit, start=sequence + 1)
    )
    return sent, tuple((point, value, why) for _, point, value, why in unfit)
