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
    texts = runs(names)
    more = len(texts) - NAMED
    return ", ".join(texts[:NAMED]) + (f" and {more} more" if more > 0 else "")


def runs(names: Sequence[str]) -> list[str]:
    """Every name, runs drawn together.

    A hyphen between names that have hyphens would read as one name: "ups-a1 to ups-a3".
    """
    found: list[list[str]] = []
    after = ""
    for name in names:
        if name == after:
            found[-1].append(name)
        else:
            found.append([name])
        digits = re.search(r"\d+$", name)
        if digits is None:
            after = ""
        else:
            number = str(int(digits[0]) + 1).zfill(len(digits[0]))
            after = name[: digits.start()] + number
    return [text for run in found for text in _run(run)]


def _run(names: Sequence[str]) -> Sequence[str]:
    if len(names) == 1 or (len(names) == 2 and "-" in names[0]):
        return names
    return [f"{names[0]}{' to ' if '-' in names[0] else '-'}{names[-1]}"]


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
