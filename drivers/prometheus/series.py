"""From the samples of a page to the number of a place: which count, and what several make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from drivers.profile import PrometheusWhere
from drivers.profile.binding import At, Places, PrometheusAt
from drivers.profile.codec import Answer
from drivers.prometheus.blanks import is_blank
from drivers.prometheus.page import (
    MAX_LABEL_BYTES,
    Line,
    Lines,
    TooMany,
    declared_in,
    labels_of,
)
from drivers.prometheus.tally import Key, Tally
from facility.points import Flaw

#: an exporter that stamps its samples and stopped measuring: Prometheus forgets them after 5 min.
#: A stamp that stands still for as long is as old, whatever it says: clocks may be years ahead
STALE_MS: Final = 300_000
#: label texts whose meaning is remembered from page to page
MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class _Use:
    """What one series is to one place: which of its names, and which of the things it tells of."""

    place: int
    alternative: int
    key: Key
    text: str


@dataclass(slots=True)
class _Heard:
    """What a page says of one name of a place: numbers, or flaws, by thing."""

    numbers: dict[Key, float] = field(default_factory=dict)
    flaws: dict[Key, Flaw] = field(default_factory=dict)
    texts: dict[Key, str] = field(default_factory=dict)


class Reader:
    """Reads one set of places off pages; remembers what label texts mean and what was counted."""

    def __init__(self, places: Places) -> None:
        self._places = places.at
        self._names = sorted(
            {
                series.metric
                for at in places.at
                if isinstance(at, PrometheusAt)
                for series in at.where.any_of
            }
        )
        self._lines = Lines(self._names)
        self._named: dict[bytes, list[tuple[int, int, PrometheusWhere, int | None]]] = {}
        for i, at in enumerate(places.at):
            if isinstance(at, PrometheusAt):
                for j, series in enumerate(at.where.any_of):
                    there = self._named.setdefault(series.metric.encode(), [])
                    there.append((i, j, at.where, at.row))
        self._stamps: dict[tuple[bytes, bytes], tuple[float, int]] = {}
        self._uses: dict[tuple[bytes, bytes], tuple[_Use, ...] | None] = {}
        self._tallies: dict[tuple[int, int], Tally] = {}

    def answers(self, page: bytes, now_ms: int, *, open_metrics: bool = False) -> Sequence[Answer]:
        """What a whole page says at each place, in their order.

        Args:
            page: as `drivers.prometheus.page.whole_page` passed it.
            now_ms: UTC ms, for samples that carry their own time.
            open_metrics: such times are in seconds, not milliseconds.
        """
        heard: dict[tuple[int, int], _Heard] = {}
        broken: set[str] = set()
        try:
            for line in self._lines.find(page):
                self._hear(line, heard, broken, now_ms, 1000.0 if open_metrics else 1.0)
        except TooMany:
            return (Flaw.UNDECODABLE,) * len(self._places)
        complete = {place for place, _ in heard}.issuperset(range(len(self._places)))
        declared = set() if complete else declared_in(page, self._names)
        return tuple(
            self._answer(i, at, heard, broken, declared) for i, at in enumerate(self._places)
        )

    def _hear(
        self,
        line: Line,
        heard: dict[tuple[int, int], _Heard],
        broken: set[str],
        now_ms: int,
        to_ms: float,
    ) -> None:
        uses = self._meaning(line)
        number = line.number
        if uses is None or number is None:
            broken.add(line.name.decode())
            return
        stale = bool(uses) and self._is_stale(line, now_ms, to_ms)
        for use in uses:
            there = heard.setdefault((use.place, use.alternative), _Heard())
            at = self._places[use.place]
            assert isinstance(at, PrometheusAt)
            if at.where.text is not None:
                there.texts.setdefault(use.key, use.text)
            elif stale:
                there.flaws[use.key] = Flaw.STALE
            elif is_blank(at.where.blanks, number):
                there.flaws[use.key] = Flaw.SENTINEL
            elif not math.isfinite(number):
                there.flaws[use.key] = Flaw.UNDECODABLE
            else:
                known = there.numbers.get(use.key)
                there.numbers[use.key] = number if known is None else max(known, number)

    def _is_stale(self, line: Line, now_ms: int, to_ms: float) -> bool:
        """Whether a sample's own time is long past, or has not moved for long."""
        if line.time is None:
            return False
        head = (line.name, line.labels)
        told, since_ms = self._stamps.get(head, (None, now_ms))
        if told != line.time:
            if len(self._stamps) >= MAX_REMEMBERED:
                self._stamps.clear()
            since_ms = now_ms
            self._stamps[head] = (line.time, since_ms)
        return now_ms - min(line.time * to_ms, float(since_ms)) > STALE_MS

    def _meaning(self, line: Line) -> tuple[_Use, ...] | None:
        """Whom a series concerns; None when its labels cannot be read."""
        if len(line.labels) > MAX_LABEL_BYTES:
            return None
        head = (line.name, line.labels)
        if head not in self._uses:
            if len(self._uses) >= MAX_REMEMBERED:
                self._uses.clear()
            self._uses[head] = self._meant(line)
        return self._uses[head]

    def _meant(self, line: Line) -> tuple[_Use, ...] | None:
        labels = labels_of(line.labels)
        if labels is None:
            return None
        uses: list[_Use] = []
        for i, j, where, row in self._named.get(line.name, ()):
            if where.row is not None and labels.get(where.row) != str(row):
                continue
            if uses and uses[-1].place == i:
                continue  # the first of a place's names that fits
            wanted = where.any_of[j].labels
            if all(labels.get(name, "") in values for name, values in wanted):
                key = tuple(labels.get(name, "") for name in where.per)
                uses.append(_Use(i, j, key, labels.get(where.text or "", "")))
        return tuple(uses)

    def _answer(
        self,
        place: int,
        at: At,
        heard: dict[tuple[int, int], _Heard],
        broken: set[str],
        declared: set[str],
    ) -> Answer:
        if not isinstance(at, PrometheusAt):
            return Flaw.REFUSED
        for i, series in enumerate(at.where.any_of):
            if series.metric in broken:
                # A part of a sum is not the sum, and the line may be the one that was meant.
                return Flaw.UNDECODABLE
            there = heard.get((place, i))
            if there is not None:
                return self._made(place, i, at.where, there)
        spoken = any(series.metric in declared for series in at.where.any_of)
        return Flaw.SENTINEL if spoken else Flaw.REFUSED

    def _made(self, place: int, alternative: int, where: PrometheusWhere, there: _Heard) -> Answer:
        """One answer from everything that a page says of one name."""
        if where.text is not None:
            return there.texts[min(there.texts)] or Flaw.REFUSED
        for key, flaw in there.flaws.items():
            if key not in there.numbers:
                return flaw
        numbers = there.numbers
        if where.take == "count":
            return self._tallies.setdefault((place, alternative), Tally()).add(numbers)
        if where.take == "only":
            return next(iter(numbers.values())) if len(numbers) == 1 else Flaw.UNDECODABLE
        total = math.fsum(numbers.values())
        return total if where.take == "sum" else total / len(numbers)


def rows_in(page: bytes, wheres: Sequence[PrometheusWhere]) -> tuple[int, ...]:
    """Row numbers that a page has under the row labels of some places, in order."""
    found: set[int] = set()
    lines = Lines(series.metric for where in wheres for series in where.any_of)
    labels = {where.row for where in wheres if where.row is not None}
    try:
        for line in lines.find(page):
            told = labels_of(line.labels) or {}
            texts = (told.get(name, "") for name in labels)
            found.update(int(t) for t in texts if t.isascii() and t.isdigit() and len(t) < 5)
    except TooMany:
        return ()
    return tuple(sorted(found))
