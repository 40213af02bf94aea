"""Small line charts as SVG, drawn by the server; gaps in the data stay gaps.

Only classes and presentation geometry: the page's policy forbids inline style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 240.0
HEIGHT: Final = 44.0
_PAD: Final = 3.0


@dataclass(frozen=True, slots=True)
class Spark:
    """One small chart.

    Attributes:
        paths: one SVG path per run of known values.
        dots: lone values (a run of one), as (x, y).
        low, high, first_ms, last_ms: what the axes span; None when nothing is known.
    """

    title: str
    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    low: float | None
    high: float | None
    first_ms: int | None
    last_ms: int | None
    width: float
    height: float


def spark(
    title: str,
    series: Sequence[tuple[int, float | None]],
    least_span: float = 1.0,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> Spark:
    """A chart of (UTC ms, value or None), oldest first.

    Args:
        title: what it shows, with the unit.
        series: the values; None and gaps break the line.
        least_span: height of the value axis at least, so that noise does not look like news.
        width: of the drawing, in its own units.
        height: likewise.
        width, height: of the drawing, in its own units.
    """
    known = [value for _, value in series if value is not None]
    if not known:
        return Spark(title, (), (), None, None, None, None, width, height)
    low, high = min(known), max(known)
    middle, span = (low + high) / 2.0, max(high - low, least_span)
    first_ms, last_ms = series[0][0], series[-1][0]
    length_ms = max(last_ms - first_ms, 1)

    def place(at_ms: int, value: float) -> tuple[float, float]:
        x = _PAD + (width - 2 * _PAD) * (at_ms - first_ms) / length_ms
        y = height / 2 - (height - 2 * _PAD) * (value - middle) / span
        return round(x, 1), round(y, 1)

    runs: list[list[tuple[float, float]]] = [[]]
    for at_ms, value in series:
        if value is None:
            runs.append([])
        else:
            runs[-1].append(place(at_ms, value))
    paths = tuple("M" + "L".join(f"{x:g} {y:g}" for x, y in run) for run in runs if len(run) > 1)
    dots = tuple(run[0] for run in runs if len(run) == 1)
    return Spark(title, paths, dots, low, high, first_ms, last_ms, width, height)
