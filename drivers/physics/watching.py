"""Physics on line: marks readings that contradict each other, look after look.

A law is asked with the lowest and the highest value that each point showed in its last looks; it
fails after several looks in a row, and holds again after more of them and a minute. While all is
well a device is judged only so often: what physics sees are wrong scales and dead sensors, and
those stay. A failed check marks what was GOOD as SUSPECT and never alters a value, so that to a
controller the reading is missing: it counts the worst case, as it does for a silent meter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from drivers.physics.blaming import blamed
from drivers.physics.energy import Counted, counted_of
from drivers.physics.finding import known_points, rules_of
from drivers.physics.frozen import Frozen, agreed, pairs_of
from drivers.physics.rules import Rule
from drivers.physics.vocabulary import ENERGY, HEAT, MOVES, Doubt
from drivers.profile.binding import Binding
from facility.points import ByteArray, Flaw, FloatArray, Grade, Layout, Scan, quality

#: looks that a point's lowest and highest value are taken from
WINDOW: Final = 4
#: looks in a row after which a law has failed, and after which it holds again
FAILS: Final = 5
HOLDS: Final = 5
#: and no sooner than this, seconds
HOLDS_S: Final = 60.0
#: laws that stored heat bends while a loop warms or cools: how long they must fail, seconds; a
#: set-point that climbs eight degrees by one each half minute, and the loop after it, takes less
SETTLES_S: Final[Mapping[str, float]] = {HEAT: 600.0}
#: how often a device is judged while all is well, seconds; its first looks all are
QUIET_S: Final = 30.0
#: and while a check has failed and stands
STANDING_S: Final = 5.0
FIRST: Final = 2

INCONSISTENT: Final = quality(Grade.SUSPECT, Flaw.INCONSISTENT)
FROZEN: Final = quality(Grade.SUSPECT, Flaw.FROZEN)
IMPLAUSIBLE: Final = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)


class _Standing:
    """How one law stands."""

    __slots__ = (
        "bad",
        "bad_since_s",
        "detail",
        "good",
        "last",
        "last_bad_s",
        "rule",
        "settles_s",
        "since_ms",
    )

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.settles_s = SETTLES_S.get(rule.check, 0.0)
        self.bad = 0
        self.bad_since_s = math.inf
        self.good = 0
        self.last: bool | None = None
        self.last_bad_s = -math.inf
        self.since_ms: int | None = None
        self.detail = ""

    def seen(self, fits: bool | None, now_s: float) -> bool:
        """Count one look; whether the law has just failed."""
        self.last = fits
        if fits is None:
            return False
        if fits:
            self.bad, self.good = 0, self.good + 1
            if self.good >= HOLDS and now_s - self.last_bad_s >= HOLDS_S:
                self.since_ms = None
            return False
        if self.bad == 0:
            self.bad_since_s = now_s
        self.bad, self.good, self.last_bad_s = self.bad + 1, 0, now_s
        settled = self.bad >= FAILS and now_s - self.bad_since_s >= self.settles_s
        return settled and self.since_ms is None


class _Part:
    """One layout of the device: its place, its last looks, its laws, its marks."""

    def __init__(self, layout: Layout, start: int, laws: Sequence[_Standing], frozen: Frozen):
        self.layout = layout
        self.start = start
        self.stop = start + len(layout)
        self.laws = tuple(laws)
        self.frozen = frozen
        self.counted: tuple[Counted, ...] = ()
        self.window: list[FloatArray] = []
        self.looks = 0
        self.judged_s = -math.inf
        self.wait_s = QUIET_S
        self.mark: ByteArray | None = None
        self.still: dict[str, Doubt] = {}


class Physics:
    """The checks of one device; `judge` each scan as it was read.

    Attributes:
        doubts: the checks that have failed and stand; another tuple when they change.
    """

    def __init__(self, binding: Binding) -> None:
        self.doubts: tuple[Doubt, ...] = ()
        points = known_points(binding)
        self._names = {point.place: ":".join(key) for key, point in points.items()}
        self._places = {name: place for place, name in self._names.items()}
        rules = rules_of(points, binding.profile.unchecked)
        self._laws = [_Standing(rule) for rule in rules]
        home = {point.place: point.layout for point in points.values()}
        slowness = {layout.key: binding.periods[layout.key] for layout in binding.layouts}
        self._parts: dict[str, _Part] = {}
        start = 0
        for layout in binding.layouts:
            mine = [
                law
                for law in self._laws
                if max((home[i] for i in law.rule.members), key=slowness.__getitem__) == layout.key
            ]
            frozen = Frozen(pairs_of(points, layout.key, start, binding))
            self._parts[layout.key] = _Part(layout, start, mine, frozen)
            start += len(layout)
        for counted in counted_of(points, binding.profile.unchecked):
            for key in dict.fromkeys((counted.power_layout, counted.layout)):
                part = self._parts[key]
                part.counted = (*part.counted, counted)
        self._low = [math.nan] * start
        self._high = [math.nan] * start
        self._now = [math.nan] * start
        self._counted = tuple(dict.fromkeys(c for p in self._parts.values() for c in p.counted))

    def judge(self, scan: Scan) -> Scan:
        """The scan with what contradicts physics marked SUSPECT; itself where nothing does."""
        part = self._parts.get(scan.layout.key)
        if part is None or not (
            part.laws or part.frozen.pairs or part.counted or part.mark is not None
        ):
            return scan
        now_s = scan.monotonic_s
        due_s = 0.0 if part.looks < FIRST else part.wait_s
        if now_s > part.judged_s and now_s - part.judged_s >= due_s:
            self._look(part, scan, now_s)
        return scan if part.mark is None else _marked(scan, part.mark)

    def _look(self, part: _Part, scan: Scan, now_s: float) -> None:
        part.judged_s = now_s
        part.looks += 1
        values = scan.values
        if scan.quality.any():
            fine = ((scan.quality & 0b11) == int(Grade.GOOD)) | (scan.quality == IMPLAUSIBLE)
            values = np.where(fine, values, np.nan)
        part.window = [*part.window[1 - WINDOW :], values]
        inside = slice(part.start, part.stop)
        self._now[inside] = values.tolist()
        self._low[inside] = np.minimum.reduce(part.window).tolist()
        self._high[inside] = np.maximum.reduce(part.window).tolist()
        counting = stands = changed = False
        for law in part.laws:
            stood = law.since_ms is not None
            rule = law.rule
            # What has failed holds again only by what it shows now, not by what it might mean.
            fits = rule.fits(self._now, self._now)
            stands |= stood
            counting |= fits is False and not stood
            if fits is False and not stood:
                fits = rule.fits(self._low, self._high)
            if law.seen(fits, now_s):
                law.since_ms, law.detail = scan.received_ms, rule.words(self._now)
            changed |= stood != (law.since_ms is not None)
        for counted in part.counted:
            changed |= counted.look(self._now, scan.layout.key, now_s, scan.received_ms)
        if part.frozen.pairs:
            changed |= self._watch(part, values, now_s, scan.received_ms)
        stands |= bool(part.still)
        part.wait_s = 0.0 if counting else STANDING_S if stands else QUIET_S
        if changed or stands:
            self._mark()

    def _watch(self, part: _Part, values: FloatArray, now_s: float, now_ms: int) -> bool:
        """Whether other values are frozen than were."""
        found = agreed(part.frozen.look(values, now_s), part.frozen.pairs)
        if not found and not part.still:
            return False
        still = {}
        for name, number in found.items():
            pair = part.frozen.pairs[number]
            doubt = Doubt(MOVES, pair.part, part.frozen.words(number, now_s), (name,), now_ms)
            still[name] = part.still.get(name, doubt)
        changed = still.keys() != part.still.keys()
        part.still = still
        return changed

    def _doubts(self) -> list[Doubt]:
        found = []
        failed = [law for law in self._laws if law.since_ms is not None]
        agreeing = [
            law.rule.members
            for law in self._laws
            if failed and law.rule.equal and law.last and law.rule.firm(self._now)
        ]
        wrong = blamed([law.rule.members for law in failed], agreeing)
        for law, places in zip(failed, wrong, strict=True):
            names = tuple(self._names[i] for i in places)
            since_ms = law.since_ms or 0
            found.append(Doubt(law.rule.check, law.rule.part, law.detail, names, since_ms))
        for counted in self._counted:
            if counted.since_ms is not None:
                name = self._names[counted.energy]
                found.append(Doubt(ENERGY, counted.part, counted.detail, (name,), counted.since_ms))
        return [*found, *(d for part in self._parts.values() for d in part.still.values())]

    def _mark(self) -> None:
        marks: dict[int, int] = {}
        doubts = tuple(self._doubts())
        if doubts != self.doubts:
            self.doubts = doubts
        for doubt in doubts:
            for name in doubt.points:
                marks[self._places[name]] = FROZEN if doubt.check == MOVES else INCONSISTENT
        for part in self._parts.values():
            part.mark = None
            for place, mark in marks.items():
                if part.start <= place < part.stop:
                    if part.mark is None:
                        part.mark = np.zeros(len(part.layout), dtype=np.uint8)
                    part.mark[place - part.start] = mark


def _marked(scan: Scan, mark: ByteArray) -> Scan:
    """The scan with marks on what was GOOD; what was worse keeps its own reason."""
    good = (scan.quality & 0b11) == int(Grade.GOOD)
    packed = np.where(good & (mark != 0), mark, scan.quality).astype(np.uint8)
    return Scan(
        scan.layout,
        scan.values,
        packed,
        scan.source_ms,
        scan.received_ms,
        scan.monotonic_s,
    )


def physics_of(device: object) -> Physics | None:
    """The checks of a device that a profile describes; None for any other (an agent)."""
    binding = getattr(device, "binding", None)
    return Physics(binding) if isinstance(binding, Binding) else None
