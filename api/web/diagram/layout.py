"""Where everything stands: layers from top to bottom, few crossings, children below parents.

After Sugiyama, Tagawa and Toda (1981): layers by longest way, order by the mean of the neighbours
(barycentre), then places as near to the neighbours' mean as order and widths allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from api.web.diagram.chart import Chart

GAP: Final = 18.0
SWEEPS: Final = 6


def ordered(chart: Chart) -> list[list[str]]:
    """Keys by layer, each layer in an order with few crossings."""
    rows = chart.layers
    neighbours = _neighbours(chart)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            place = {key: i / len(each) for each in rows for i, key in enumerate(each)}
            row.sort(key=lambda key: _mean([place[k] for k in neighbours[key]], place[key]))
    return rows


def centres(
    chart: Chart, rows: Sequence[Sequence[str]], width: Mapping[str, float]
) -> dict[str, float]:
    """Key -> x of its middle; the leftmost edge is at 0."""
    x: dict[str, float] = {}
    for row in rows:
        edge = 0.0
        for key in row:
            x[key] = edge + width[key] / 2.0
            edge += width[key] + GAP
    neighbours = _neighbours(chart)
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([x[k] for k in neighbours[key]], x[key]) for key in row]
            for key, at in zip(row, _apart(row, wanted, width), strict=True):
                x[key] = at
    left = min((x[key] - width[key] / 2.0 for key in x), default=0.0)
    return {key: at - left for key, at in x.items()}


def _neighbours(chart: Chart) -> dict[str, list[str]]:
    found = {key: list(item.parents) for key, item in chart.items.items()}
    for key, below in chart.children().items():
        found[key] += below
    return found


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _apart(row: Sequence[str], wanted: Sequence[float], width: Mapping[str, float]) -> list[float]:
    """Places in order, a gap apart, with the least squares from where each wants to be.

    Pool adjacent violators: those that push each other move as one.
    """
    offset, edge = [], 0.0
    for key in row:
        offset.append(edge + width[key] / 2.0)
        edge += width[key] + GAP
    pools: list[tuple[float, int]] = []  # mean of (wanted - offset), how many
    for want, off in zip(wanted, offset, strict=True):
        mean, count = want - off, 1
        while pools and pools[-1][0] > mean:
            other, many = pools.pop()
            mean = (mean * count + other * many) / (count + many)
            count += many
        pools.append((mean, count))
    shifts = [mean for mean, count in pools for _ in range(count)]
    return [off + shift for off, shift in zip(offset, shifts, strict=True)]
