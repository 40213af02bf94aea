"""Which points a failed law speaks of: the fewest that, if wrong, would explain what failed.

Points that an equality binds together and that agree are right together or wrong together: where
apparent power is voltage times current, a power that does not fit is the odd one out; where wrong
phases add up to a wrong total, the total is wrong with them. Of the groups that meet in a failed
law those in the most failed laws are blamed, then the smallest; equals are all blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain


def blamed(
    failed: Sequence[tuple[int, ...]], agreeing: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """For each failed law the points to mark.

    Args:
        failed: members of the laws that failed.
        agreeing: members of the equalities that hold, with enough of everything to mean it.
    """
    group = {place: {place} for place in chain(*failed)}
    for members in agreeing:
        joined = set(chain(*(group.get(place, {place}) for place in members)))
        for place in joined:
            group[place] = joined
    met = [{id(group[place]): group[place] for place in members} for members in failed]
    weight: dict[int, int] = {}
    for key in chain(*met):
        weight[key] = weight.get(key, 0) + 1
    found = []
    for groups in met:
        most = max(weight[key] for key in groups)
        heavy = [members for key, members in groups.items() if weight[key] == most]
        least = min(map(len, heavy))
        found.append(tuple(sorted(chain(*(m for m in heavy if len(m) == least)))))
    return found
