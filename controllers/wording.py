"""Amounts and names in sentences for people."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

#: So many names are written out in a sentence.
NAMED: Final = 5
#: Steps of the last digit that are noise of floating point.
ROUNDING: Final = 1e-6


def listed(names: Sequence[str]) -> str:
    """Names with runs drawn together: "r01-r08, r11"; of many the first few."""
    runs: list[tuple[str, str]] = []
    after = ""
    for name in names:
        if name == after:
            runs[-1] = (runs[-1][0], name)
        else:
            runs.append((name, name))
        digits = re.search(r"\d+$", name)
        if digits is None:
            after = ""
        else:
            number = str(int(digits[0]) + 1).zfill(len(digits[0]))
            after = name[: digits.start()] + number
    texts = [low if low == high else f"{low}-{high}" for low, high in runs]
    more = len(texts) - NAMED
    return ", ".join(texts[:NAMED]) + (f" and {more} more" if more > 0 else "")


def capital(text: str) -> str:
    """A sentence of its own: a capital at its start, a full stop at its end; "" stays."""
    text = text.strip()
    return text and f"{text[0].upper()}{text[1:].rstrip('.')}."


def kilowatts(power_w: float) -> str:
    """As many digits as a person needs: "84 kW", "0.4 kW"."""
    return _written(power_w, round)


def room_left(power_w: float) -> str:
    """As `kilowatts`, rounded down: nobody is told of room that is not there."""
    return _written(power_w, lambda steps: math.floor(steps + ROUNDING))


def lacking(power_w: float) -> str:
    """As `kilowatts`, rounded up: what is given back must be enough."""
    return _written(power_w, lambda steps: math.ceil(steps - ROUNDING))


def _written(power_w: float, whole: Callable[[float], int]) -> str:
    if abs(power_w) >= 10_000.0:
        return f"{whole(power_w / 1000.0)} kW"
    return f"{whole(power_w / 100.0) / 10.0:.1f} kW"
