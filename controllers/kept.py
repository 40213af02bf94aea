"""What a controller leaves for the next one: how far each trip clock had run, measured overheads.

A restart must not forget an overload that a breaker still feels, nor take an hour to learn again
what racks draw besides their boards. What was never written down, or cannot be read, is unknown,
and unknown is the worst case: whoever reads finds nothing rather than something that may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kept:
    """Of a moment in the life of the controller before.

    Attributes:
        at_ms: that moment, UTC ms.
        used: element -> x of its trip clock, 0 to 1; load_w: element -> its load then, W.
        overhead_w: composition of a rack -> measured overhead of it, W.
    """

    at_ms: int
    used: Mapping[str, float] = field(default_factory=dict)
    load_w: Mapping[str, float] = field(default_factory=dict)
    overhead_w: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain fields; what is no figure is left out."""
        return {
            "at_ms": self.at_ms,
            "used": _figures(self.used, 1.0),
            "load_w": _figures(self.load_w, math.inf),
            "overhead_w": _figures(self.overhead_w, math.inf),
        }

    @classmethod
    def from_json(cls, data: object) -> Kept | None:
        """What `to_json` wrote; None of anything else. A figure that cannot be is left out."""
        if not isinstance(data, Mapping):
            return None
        at_ms = data.get("at_ms")
        if not isinstance(at_ms, int) or isinstance(at_ms, bool) or at_ms < 0:
            return None
        return cls(
            at_ms,
            _figures(data.get("used"), 1.0),
            _figures(data.get("load_w"), math.inf),
            _figures(data.get("overhead_w"), math.inf),
        )


def _figures(data: object, most: float) -> dict[str, float]:
    """Finite numbers from 0 to `most` by name."""
    if not isinstance(data, Mapping):
        return {}
    out = {}
    for name, value in data.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isfinite(value) and 0.0 <= value <= most:
            out[str(name)] = float(value)
    return out
