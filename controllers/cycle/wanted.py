"""Which cap each node should have now: the finished plan's, or what fits of those in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np

from controllers.allocation import Plan, floors_lack, relieve
from controllers.cycle.question import Question
from controllers.cycle.state import FinishedPlan
from controllers.gpu_caps import CapForce
from controllers.gpu_caps.force import BoolArray
from facility.points import FloatArray
from facility.site import SiteModel

Used = Literal["plan", "hold", "water_fill"]
SOURCES: Final[Mapping[Used, str]] = {"plan": "plan", "water_fill": "water-filling"}
OWN_OPTIMUM: Final = "its own optimum"
ALL_FITS: Final = "what is in force fits"
HELD: Final = "the caps in force are safe; no newer plan"


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why each cap is where it should be; a sentence is made when it is asked for.

    Attributes:
        names: of the nodes.
        used: where the caps come from; because: node -> what set its cap there.
        limit_w: float64[N], what cooling allows; hit: bool[N], less than is in force.
        hold: why nothing moves, where nothing does.
        own: node number -> what something more pressing says.
    """

    names: tuple[str, ...]
    used: Used
    because: Mapping[str, str]
    hit: BoolArray
    limit_w: FloatArray
    hold: str
    own: Mapping[int, str]

    def __getitem__(self, i: int) -> str:
        if i in self.own:
            return self.own[i]
        if self.hit[i]:
            return f"cooling allows {self.limit_w[i]:.0f} W"
        if self.used == "hold":
            return self.hold or HELD
        return f"{SOURCES[self.used]}: {self._limit(i)}"

    def of(self, nodes: Sequence[int]) -> list[str]:
        """As `self[i]`, of many."""
        if self.used == "hold":
            rest, source = self.hold or HELD, ""
        else:
            source = f"{SOURCES[self.used]}: "
            rest = ALL_FITS if self.used == "water_fill" else OWN_OPTIMUM
        said: Mapping[str, str] = {} if self.used == "hold" else self.because
        told = {why: source + why for why in {rest, *said.values()}}
        names, hit, own = self.names, self.hit.tolist(), self.own
        return [self[i] if hit[i] or i in own else told[said.get(names[i], rest)] for i in nodes]

    def bare(self, i: int) -> str:
        """The same without where the caps come from: "row1-b after loss of pdu-a"."""
        if self.used == "hold" or i in self.own or self.hit[i]:
            return self[i]
        return self._limit(i)

    def _limit(self, i: int) -> str:
        rest = ALL_FITS if self.used == "water_fill" else OWN_OPTIMUM
        return self.because.get(self.names[i], rest)

    def but(self, own: Mapping[int, str]) -> Reasons:
        """The same, with other words for some nodes."""
        return replace(self, own={**self.own, **own}) if own else self


@dataclass(frozen=True, eq=False)
class Wanted:
    """The caps wanted, W per GPU.

    Attributes:
        desired_w: float64[N].
        protect: bool[N], a lowering there is protection.
        high_w: float64[N], hard upper end for protection.
        reasons: per node number, for people.
        used: where the caps come from.
        question: the present one; key: of the plant it describes.
        shortfall: element, case and kW that no cap at or above the floors can satisfy.
    """

    desired_w: FloatArray
    protect: BoolArray
    high_w: FloatArray
    reasons: Reasons
    used: Used
    question: Question
    key: str
    shortfall: Mapping[str, Any] | None


def plant_key(
    out: Sequence[str], fixed: Mapping[str, float], *, present_only: bool, policy: str
) -> str:
    """What a plan is valid for: elements out, overrides, which limits, which policy."""
    held = ",".join(f"{n}={w!r}" for n, w in sorted(fixed.items()))
    return f"{policy}|{','.join(sorted(out))}|{held}|{present_only}"


def by_node(site: SiteModel, caps_w: FloatArray) -> dict[str, float]:
    """Caps as a mapping."""
    return {name: float(w) for name, w in zip(site.nodes, caps_w, strict=True)}


def _vector(site: SiteModel, caps: Mapping[str, float]) -> FloatArray:
    return np.array([caps[name] for name in site.nodes], dtype=np.float64)


class _ByPlan:
    """Makes a plan of a site a cache key by identity."""

    def __init__(self, site: SiteModel, plan: Plan) -> None:
        self.site, self.plan = site, plan

    def __hash__(self) -> int:
        return hash((id(self.site), id(self.plan)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByPlan) and other.site is self.site and other.plan is self.plan


@lru_cache(maxsize=4)
def _planned(key: _ByPlan) -> FloatArray:
    """float64[N]: the caps of a plan."""
    return _vector(key.site, key.plan.caps_w)


def choose(
    site: SiteModel,
    question: Question,
    key: str,
    force: CapForce,
    finished: FinishedPlan | None,
    thermal_w: FloatArray,
    *,
    hold_because: str,
) -> Wanted:
    """Decide where every cap should be.

    Args:
        site: the site.
        question: of this moment.
        key: what a finished plan must have been made for.
        force: caps in force.
        finished: newest plan.
        thermal_w: as in `pose`.
        hold_because: nothing but protection moves (a real loss before resecuring); else "".
    """
    in_force = force.in_force_w
    limit = np.where(np.isnan(thermal_w), in_force, thermal_w)
    limit = np.maximum(np.minimum(limit, site.max_cap_w), site.min_cap_w)
    thermal_hit = in_force > limit + 0.5
    now_fits = question.broken_by(in_force) is None
    shortfall: Mapping[str, Any] | None = None
    because: Mapping[str, str] = {}
    used: Used = "hold"
    desired = np.minimum(in_force, limit)
    plan: Plan | None = None
    if finished is not None and finished.key == key and not hold_because:
        plan = finished.plan
    if plan is not None and plan.feasible:
        planned = np.minimum(_planned(_ByPlan(site, plan)), limit)
        if question.broken_by(planned) is None:
            desired, because, used = planned, plan.because, "plan"
    if used == "hold" and not now_fits:
        safe, because, shortfall = _that_fit(site, question, np.minimum(limit, in_force))
        desired, used = safe, "water_fill"
        if shortfall is not None:
            # Floors bind the limits after further losses only, not those of the plant as it is.
            desired = _vector(site, relieve(question.check, by_node(site, safe)))
            below = dict.fromkeys(_lower(site, desired, safe), "overload now: below its floor")
            because = {**because, **below}
    protect = thermal_hit | ((desired < in_force) & (not now_fits))
    reasons = Reasons(site.nodes, used, because, thermal_hit, limit, hold_because, {})
    return Wanted(desired, protect, limit, reasons, used, question, key, shortfall)


def _that_fit(
    site: SiteModel, question: Question, caps_w: FloatArray
) -> tuple[FloatArray, Mapping[str, str], Mapping[str, Any] | None]:
    """Caps of at most `caps_w` that hold every limit, why, and what floors lack where none do."""
    fitted = question.lower_to_fit(caps_w)
    if fitted is not None:
        low = {site.nodes[i]: why for i, why in fitted.because.items()}
        return np.minimum(fitted.caps_w, caps_w), low, None
    problem = question.check
    floors_w = np.minimum(problem.units.low[problem.unit], caps_w)
    lack = floors_lack(problem)
    if lack is None:
        return floors_w, {}, None
    missing, said = lack
    return floors_w, dict(zip(site.nodes, said, strict=True)), asdict(missing)


def _lower(site: SiteModel, caps_w: FloatArray, than_w: FloatArray) -> list[str]:
    return [site.nodes[int(i)] for i in np.flatnonzero(caps_w < than_w - 1e-6)]


def with_room(site: SiteModel, wanted: Wanted, force: CapForce) -> Wanted:
    """The caps to go for now: lowerings that are too small to make are no room for raises.

    Args:
        site: the site.
        wanted: the caps wanted.
        force: caps in force.
    """
    least = site.facility.controllers.allocation.min_move * site.max_cap_w
    gap = wanted.desired_w - force.in_force_w
    if not np.any((gap >= least) & (gap > 0.0)):
        return wanted
    least = np.where(wanted.protect, 0.0, least)
    desired = wanted.question.make_room(force.in_force_w, wanted.desired_w, least)
    return replace(wanted, desired_w=desired)
