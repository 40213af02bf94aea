"""Points, layouts and scans: what is measured, in which order, and one look at it.

A point is `device:part:kind`. Dense indexes exist only in memory; a layout's key is the hash of
its content, so a changed profile makes a new layout while the points keep their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from facility.kinds import KINDS, Kind

FloatArray = npt.NDArray[np.float64]
ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]


class Grade(IntEnum):
    """How far a value may be trusted: the two low bits of a quality byte."""

    GOOD = 0
    SUSPECT = 1
    BAD = 2


class Flaw(IntEnum):
    """Why a value is not GOOD: the six high bits of a quality byte."""

    NONE = 0
    TIMEOUT = 1
    REFUSED = 2
    UNDECODABLE = 3
    SENTINEL = 4
    IMPLAUSIBLE = 5
    STALE = 6
    RETAINED = 7
    FROZEN = 8
    SUBSTITUTED = 9
    DEVICE_FAULT = 10
    CLOCK_SKEW = 11
    INCONSISTENT = 12


GOOD: Final = 0


def quality(grade: Grade, flaw: Flaw = Flaw.NONE) -> int:
    """Pack a grade and a flaw into one quality byte."""
    return int(grade) | (int(flaw) << 2)


def grade_of(packed: int) -> Grade:
    """The grade in a quality byte."""
    return Grade(packed & 0b11)


def flaw_of(packed: int) -> Flaw:
    """The flaw in a quality byte."""
    return Flaw(packed >> 2)


BAD_TIMEOUT: Final = quality(Grade.BAD, Flaw.TIMEOUT)
BAD_STALE: Final = quality(Grade.BAD, Flaw.STALE)


class PointId(NamedTuple):
    """The identity of a point; `str()` gives `device:part:kind`."""

    device: str
    part: str
    kind: str

    def __str__(self) -> str:
        return f"{self.device}:{self.part}:{self.kind}"

    @classmethod
    def parse(cls, text: str) -> PointId:
        """Read `device:part:kind`.

        Raises:
            ValueError: not three non-empty parts, or an unknown kind.
        """
        parts = text.split(":")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{text!r} is not device:part:kind")
        if parts[2] not in KINDS:
            raise ValueError(f"{text!r}: no kind {parts[2]!r}")
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class PointSpec:
    """What is known of a point before it is ever read.

    Attributes:
        id: identity.
        low, high: plausible range in the kind's unit; outside it a value is kept but SUSPECT.
        stale_after_s: age at which the value becomes BAD (STALE).
        writable: whether commands may name it.
        states: code -> name, for kinds of nature STATE.
        watchdog_s: how long the device keeps what was written before it falls back by itself;
            None: for ever.
    """

    id: PointId
    low: float
    high: float
    stale_after_s: float = 10.0
    writable: bool = False
    states: tuple[tuple[int, str], ...] = ()
    watchdog_s: float | None = None

    @property
    def kind(self) -> Kind:
        """The kind's entry in the closed list."""
        return KINDS[self.id.kind]


@dataclass(frozen=True)
class Layout:
    """The ordered points of one (device, poll class); immutable, keyed by its content."""

    device: str
    poll_class: str
    points: tuple[PointSpec, ...]

    @cached_property
    def key(self) -> str:
        """sha256 of device, poll class and point identities, 16 hex digits."""
        text = "\n".join((self.device, self.poll_class, *(str(p.id) for p in self.points)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, slots=True)
class Scan:
    """One full-length look at one layout at one time.

    Attributes:
        layout: which points, in which order.
        values: float64[n] in canonical units; NaN where missing.
        quality: uint8[n]; BAD wherever the value is NaN.
        source_ms: when the device says it measured (UTC ms); receive time where it does not say.
        received_ms: when we had it (UTC ms, from facility.clock).
        monotonic_s: the same moment on the monotonic clock, for ages.
    """

    layout: Layout
    values: FloatArray
    quality: ByteArray
    source_ms: int
    received_ms: int
    monotonic_s: float

    def __post_init__(self) -> None:
        n = len(self.layout)
        if self.values.shape != (n,) or self.quality.shape != (n,):
            raise ValueError(f"scan of {self.layout.device} has not the length {n} of its layout")

    @classmethod
    def missing(cls, layout: Layout, flaw: Flaw, received_ms: int, monotonic_s: float) -> Scan:
        """A scan in which nothing could be read, for one reason."""
        n = len(layout)
        return cls(
            layout,
            np.full(n, np.nan),
            np.full(n, quality(Grade.BAD, flaw), dtype=np.uint8),
            received_ms,
            received_ms,
            monotonic_s,
        )


@dataclass(frozen=True)
class PointTable:
    """All points of a site with dense indexes; built once from the layouts.

    Attributes:
        layouts: in the order of their slices.
        specs: one per dense index.
        index: identity -> dense index.
        offsets: layout key -> first dense index.
    """

    layouts: tuple[Layout, ...]
    specs: tuple[PointSpec, ...] = field(repr=False)
    index: dict[PointId, int] = field(repr=False)
    offsets: dict[str, int] = field(repr=False)

    @classmethod
    def of(cls, layouts: Iterable[Layout]) -> PointTable:
        """Lay the layouts side by side.

        Raises:
            ValueError: a point or a layout stands twice.
        """
        ordered = tuple(layouts)
        specs: list[PointSpec] = []
        index: dict[PointId, int] = {}
        offsets: dict[str, int] = {}
        for layout in ordered:
            if layout.key in offsets:
                raise ValueError(f"layout {layout.device}/{layout.poll_class} stands twice")
            offsets[layout.key] = len(specs)
            for spec in layout.points:
                if spec.id in index:
                    raise ValueError(f"point {spec.id} stands in two layouts")
                index[spec.id] = len(specs)
                specs.append(spec)
        return cls(ordered, tuple(specs), index, offsets)

    def __len__(self) -> int:
        return len(self.specs)

    @cached_property
    def stale_after_s(self) -> FloatArray:
        """float64[n]: staleness limit of each point."""
        return np.array([s.stale_after_s for s in self.specs], dtype=np.float64)

    @cached_property
    def lengths(self) -> IntArray:
        """int64[K]: how many points each layout has."""
        return np.array([len(layout) for layout in self.layouts], dtype=np.int64)

    @cached_property
    def starts(self) -> IntArray:
        """int64[K]: dense index of each layout's first point."""
        return np.array([self.offsets[layout.key] for layout in self.layouts], dtype=np.int64)

    @cached_property
    def layout_of(self) -> IntArray:
        """int64[n]: number of the layout that each point stands in."""
        return np.repeat(np.arange(len(self.layouts)), self.lengths)

    @cached_property
    def soonest_stale_s(self) -> FloatArray:
        """float64[K]: age at which the first point of each layout becomes stale; inf if empty."""
        out = np.full(len(self.layouts), np.inf)
        np.minimum.at(out, self.layout_of, self.stale_after_s)
        return out

    def points_of(self, layouts: IntArray) -> tuple[IntArray, IntArray]:
        """Dense indexes of all points of some layouts, and the layout of each."""
        lengths = self.lengths[layouts]
        of = np.repeat(layouts, lengths)
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.starts[of] + np.arange(len(of)) - before, of

    @cached_property
    def low(self) -> FloatArray:
        """float64[n]: least plausible value."""
        return np.array([s.low for s in self.specs], dtype=np.float64)

    @cached_property
    def high(self) -> FloatArray:
        """float64[n]: greatest plausible value."""
        return np.array([s.high for s in self.specs], dtype=np.float64)

    def indexes(self, points: Sequence[PointId]) -> IntArray:
        """Dense indexes of the points named; -1 for one that the site does not have."""
        return np.array([self.index.get(p, -1) for p in points], dtype=np.int64)
