"""Elements that several halls use: what each file takes of them must fit together.

Each hall keeps its own load on an element within its share in every case, so all of them together
keep within the element's limit if, and only if, the shares add up to no more than it. A limit does
not grow after a loss: what holds for the limit holds after any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from facility import config
from facility.errors import Problem
from facility.loading import Loaded
from facility.topology import limit_of

#: Shares that add up to more than this are too much: people write 33.4 %.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class _Claim:
    loaded: Loaded
    element: config.Element
    limit_w: float
    whole_w: float


def sharing_problems(files: Sequence[Loaded]) -> list[Problem]:
    """What halls say of each other's elements that cannot be true together.

    Args:
        files: facility files, each of which is right by itself.
    """
    names = dict.fromkeys(name for loaded in files for name in loaded.facility.power.elements)
    found: list[Problem] = []
    for name in names:
        claims = [
            _claim(loaded, loaded.facility.power.elements[name])
            for loaded in files
            if name in loaded.facility.power.elements
        ]
        if len(claims) > 1 and not all(_boundless(claim) for claim in claims):
            found.extend(_disagreements(name, claims))
    return found


def _boundless(claim: _Claim) -> bool:
    """Without a rating and without a share: there is nothing to add up."""
    return not math.isfinite(claim.whole_w) and claim.element.share is None


def _claim(loaded: Loaded, element: config.Element) -> _Claim:
    whole = limit_of(element.model_copy(update={"share": None}))
    return _Claim(loaded, element, limit_of(element).limit_w, whole.limit_w)


def _disagreements(name: str, claims: Sequence[_Claim]) -> Iterator[Problem]:
    at = ("power", "elements", name)
    first = claims[0]
    for claim in claims:
        if claim.element.share is None:
            others = ", ".join(_file(c) for c in claims if c is not claim)
            problem = f"{name!r} is used by {others} too, and this file takes all of it"
            yield claim.loaded.problem(at, problem, "state this hall's part: share: 50 %")
        same = (
            math.isclose(claim.whole_w, first.whole_w, rel_tol=ROUNDING)
            or claim.whole_w == first.whole_w
        )
        if claim.element.kind != first.element.kind or not same:
            problem = (
                f"{name!r} is a {claim.element.kind} of {_kw(claim.whole_w)} here and a "
                f"{first.element.kind} of {_kw(first.whole_w)} in {_file(first)}"
            )
            yield claim.loaded.problem(at, problem, "one element has one rating")
    if any(claim.element.share is None for claim in claims):
        return
    taken_w = sum(claim.limit_w for claim in claims)
    least_w = min(claim.whole_w for claim in claims)
    if taken_w <= least_w * (1.0 + ROUNDING):
        return
    parts = ", ".join(f"{_file(c)} {_kw(c.limit_w)}" for c in claims)
    for claim in claims:
        problem = (
            f"the halls' shares of {name!r} make {_kw(taken_w)}, "
            f"{_kw(taken_w - least_w)} more than its limit ({parts})"
        )
        yield claim.loaded.problem((*at, "share"), problem, None)


def _file(claim: _Claim) -> str:
    return claim.loaded.file


def _kw(watts: float) -> str:
    return f"{watts / 1000.0:g} kW" if math.isfinite(watts) else "no rating"
