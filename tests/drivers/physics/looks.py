"""Scans of one device, look after look, for the checks that run on line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from drivers.catalog import profiles
from drivers.physics import Physics
from drivers.profile.binding import Binding, bind
from facility.points import Flaw, Grade, Layout, Scan, flaw_of, grade_of, quality

Readings = Mapping[str, float]
EPOCH_MS = 1_800_000_000_000


def shipped(profile: str, **parameters: str) -> Binding:
    """A profile of ours, bound to device `d`."""
    return bind(profiles()[profile], "d", parameters)


def scan_of(layout: Layout, readings: Readings, at_s: float, bad: int = 0) -> Scan:
    """What was read of a layout; what is not named is BAD."""
    names = [f"{p.id.part}:{p.id.kind}" for p in layout.points]
    values = np.array([readings.get(name, math.nan) for name in names])
    missing = bad or quality(Grade.BAD, Flaw.REFUSED)
    packed = np.where(np.isnan(values), missing, 0).astype(np.uint8)
    at_ms = EPOCH_MS + round(at_s * 1000.0)
    return Scan(layout, values, packed, at_ms, at_ms, at_s)


class Watched:
    """A device under watch; `run` looks at every layout at its own period."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.physics = Physics(binding)
        self.now_s = 100.0
        self.newest: dict[str, Scan] = {}
        self.ever: set[str] = set()

    def run(self, seconds: float, readings: Callable[[float], Readings]) -> None:
        """Look for so long at what `readings(seconds since the start of this run)` says."""
        started_s, dues = self.now_s, dict.fromkeys(self.binding.periods, self.now_s)
        while self.now_s < started_s + seconds:
            self.now_s = min(dues.values())
            for layout in self.binding.layouts:
                if dues[layout.key] <= self.now_s:
                    dues[layout.key] += self.binding.periods[layout.key]
                    scan = scan_of(layout, readings(self.now_s - started_s), self.now_s)
                    judged = self.physics.judge(scan)
                    assert np.array_equal(judged.values, scan.values, equal_nan=True)
                    self.newest[layout.key] = judged
                    self.ever |= set(self.doubted)

    @property
    def doubted(self) -> dict[str, Flaw]:
        """`part:kind` -> flaw of what is SUSPECT now."""
        return {
            f"{spec.id.part}:{spec.id.kind}": flaw_of(int(q))
            for scan in self.newest.values()
            for spec, q in zip(scan.layout.points, scan.quality, strict=True)
            if grade_of(int(q)) is Grade.SUSPECT
        }
