"""Wake the control loop the moment a power meter goes dark, or takes over what another carried."""

from __future__ import annotations

import math

from facility.points import Scan

#: A meter that reads less than this share of what it read before may stand for a lost feed.
FALL = 0.5
#: One that reads more than this part of what it read before may carry what another lost.
RISE = 1.25


class Tripwire:
    """Watches `total:active_power` of every scan."""

    def __init__(self) -> None:
        self._last_w: dict[str, float] = {}
        self._at: dict[str, int | None] = {}

    def touched_by(self, scan: Scan) -> bool:
        """Whether a meter that read power before now reads none, nothing, or much more."""
        index = self._index(scan)
        if index is None:
            return False
        key = scan.layout.key
        before, now = self._last_w.get(key, math.nan), float(scan.values[index])
        self._last_w[key] = now
        if math.isnan(before) or before <= 0.0:
            return False
        return math.isnan(now) or not FALL * before <= now <= RISE * before

    def _index(self, scan: Scan) -> int | None:
        key = scan.layout.key
        if key not in self._at:
            found = [
                i
                for i, spec in enumerate(scan.layout.points)
                if (spec.id.part, spec.id.kind) == ("total", "active_power")
            ]
            self._at[key] = found[0] if found else None
        return self._at[key]
