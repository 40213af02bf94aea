"""How much of something is let through."""

from __future__ import annotations


class Allowance:
    """So many a second, and so many at once after a quiet time."""

    def __init__(self, per_s: float, at_once: float, now_s: float) -> None:
        self._per_s, self._most = per_s, at_once
        self._left, self._at_s = at_once, now_s

    def take(self, now_s: float) -> bool:
        """Take one; False when there is none left now."""
        grown = max(now_s - self._at_s, 0.0) * self._per_s
        self._left, self._at_s = min(self._left + grown, self._most), now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
