"""Limits that bind equally for the same nodes: more on one of them alone is worth nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from controllers.allocation.problem import Problem
from controllers.allocation.rows import Pool
from facility.points import FloatArray, IntArray

#: A limit with less room, W, holds back what one more kW elsewhere would free (1 % of it).
NO_ROOM_W: Final = 10.0
#: Rows without room that are looked at; a hall with more of them lacks much else.
LOOKED_AT: Final = 256
#: Weights within this share of each other are equal.
ALIKE: Final = 1e-6


def together(
    problem: Problem, pool: Pool, slack_w: FloatArray, priced: IntArray
) -> tuple[tuple[str, ...], ...]:
    """Groups of two or more elements that must all gain before any of their nodes does.

    Args:
        problem: the question.
        pool: the rows written out.
        slack_w: float64[rows], W left on every row at the caps found.
        priced: rows of the pool that have a price.
    """
    rows, slack = pool.rows, slack_w
    if not len(priced):
        return ()
    tight = np.flatnonzero(slack <= NO_ROOM_W)
    tight = tight[np.argsort(slack[tight], kind="stable")][:LOOKED_AT]
    if not len(tight):
        return ()
    weights = pool.weights(tight.tolist())
    managed = np.zeros(len(problem.base_w), dtype=np.bool_)
    managed[problem.rack] = True
    # Equal rows have equal sums under any weights; few others do, and those are looked at whole.
    mix = np.where(managed, np.cos(np.arange(1, len(managed) + 1)), 0.0)
    own = pool.matrix[priced]
    apart = np.abs((own @ mix)[:, None] - (weights @ mix)[None, :])
    size = (own @ np.abs(mix))[:, None] + (weights @ np.abs(mix))[None, :]
    near = apart <= ALIKE * size
    groups: dict[str, list[str]] = {}
    for i, at in enumerate(priced.tolist()):
        number = pool.numbers[at]
        if slack[number] > NO_ROOM_W:
            continue
        found = [rows.name(number)[0]]
        for j in np.flatnonzero(near[i] & (tight != number)):
            if bool(np.all((np.abs(weights[j] - own[i]) <= ALIKE * own[i]) | ~managed)):
                found.append(rows.name(int(tight[j]))[0])
        meets = [groups[e] for e in dict.fromkeys(found) if e in groups]
        whole = list(dict.fromkeys([*(e for group in meets for e in group), *found]))
        groups |= dict.fromkeys(whole, whole)
    distinct = {id(group): group for group in groups.values()}
    return tuple(tuple(group) for group in distinct.values() if len(group) > 1)


def worth_saying(
    prices: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]]
) -> list[tuple[str, str, float]]:
    """What one more kW is worth and where, as (places, case, tok/s): twins as one.

    Args:
        prices: those of `Plan.to_json`.
        groups: `together` of the same plan.
    """
    found: dict[tuple[tuple[str, ...], str], tuple[str, float]] = {}
    for price in prices:
        gained = price.get("tok_s_per_kw")
        if isinstance(gained, bool) or not isinstance(gained, (int, float)):
            continue
        element, case = str(price["element"]), str(price.get("case"))
        twins = next((tuple(group) for group in groups if element in group), (element,))
        key = (twins, case if len(twins) == 1 else "")
        case, so_far = found.get(key, (case, 0.0))
        found[key] = (case, so_far + float(gained))
    return [(_all(twins), case, gained) for (twins, _), (case, gained) in found.items()]


def _all(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]} each"
