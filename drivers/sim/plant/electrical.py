"""The electrical truth: which elements are alive and how the loads flow through them.

Written from the same laws as the controllers' topology and from nothing else: the judge must not
share the mistakes of whom it judges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from facility.config import CurrentRating, Element, Power
from facility.points import FloatArray
from facility.units import QuantityError, parse_quantity

BoolArray = npt.NDArray[np.bool_]

#: Kinds whose amp rating may only be used to 80 % for hours (NEC 210.20, 215.3).
_EIGHTY = frozenset({"branch", "busway", "pdu", "rack_pdu"})


def rating_w(element: Element) -> float:
    """Nameplate of an element in watts, infinite when it has none.

    Volt-amperes become watts with the element's power factor; three-phase apparent power is
    sqrt(3)·V_LL·I; a list means that each holds; a shelf is its needed modules.
    """
    if element.kind == "shelf" and element.module_rating is not None:
        return (element.needs or element.modules or 1) * element.module_rating
    ratings = element.rating if isinstance(element.rating, tuple) else (element.rating,)
    return min((_one_rating_w(r, element.power_factor) for r in ratings), default=math.inf)


def _one_rating_w(rating: str | CurrentRating, power_factor: float) -> float:
    if isinstance(rating, CurrentRating):
        if rating.voltage_ll is not None:
            volts = rating.voltage_ll * (math.sqrt(3.0) if rating.phases == 3 else 1.0)
        else:
            volts = (rating.voltage_ln or 0.0) * rating.phases
        return rating.current * volts * power_factor
    try:
        return parse_quantity(rating, "power")
    except QuantityError:
        return parse_quantity(rating, "apparent_power") * power_factor


def continuous_share(element: Element) -> float:
    """Share of the rating that may be used for hours."""
    if element.continuous is not None:
        return element.continuous
    ratings = element.rating if isinstance(element.rating, tuple) else (element.rating,)
    in_amps = any(isinstance(r, CurrentRating) for r in ratings)
    return 0.8 if in_amps and element.kind in _EIGHTY else 1.0


@dataclass(frozen=True)
class Flow:
    """How power flows while a given set of elements is lost.

    Attributes:
        dead: bool[E]; lost, or without a live parent.
        unfed: bool[E]; alive on its own battery.
        dark: bool[L]; fewer live feeds than needed.
        weights: float64[E, L]; share of a load that an element carries.
        shares: float64[F]; share of its load that each (load, feed) column carries.
    """

    dead: BoolArray
    unfed: BoolArray
    dark: BoolArray
    weights: FloatArray
    shares: FloatArray


class Network:
    """The electrical topology of a facility file.

    Attributes:
        elements: names, file order.
        loads: rack names, then the other loads' names, file order.
        columns: (load index, feed name, feeding element or group) of each feed.
        rating_w, limit_w: float64[E]; infinite when unrated; limit = rating x continuous.
    """

    def __init__(self, power: Power) -> None:
        self._power = power
        self.elements = tuple(power.elements)
        self._position = {name: i for i, name in enumerate(self.elements)}
        self.loads = (*power.racks, *power.loads)
        self._feeds = [*power.racks.values(), *power.loads.values()]
        self.columns = tuple(
            (row, feed, parent)
            for row, load in enumerate(self._feeds)
            for feed, parent in load.feeds.items()
        )
        ratings = [rating_w(e) for e in power.elements.values()]
        shares = [continuous_share(e) for e in power.elements.values()]
        self.rating_w: FloatArray = np.array(ratings, dtype=np.float64)
        self.limit_w: FloatArray = np.array(
            [r * s for r, s in zip(ratings, shares, strict=True)], dtype=np.float64
        )
        self.maintenance = frozenset(power.maintenance)
        self._order = self._parents_first()
        self.flow = lru_cache(maxsize=512)(self._flow)
        self.contingencies = lru_cache(maxsize=32)(self._contingencies)

    def parents(self, name: str) -> tuple[str, ...]:
        """Elements or groups that feed an element."""
        element = self._power.elements[name]
        if element.transfer is not None:
            return (element.transfer.normal, element.transfer.alternate)
        return element.fed_by

    def _parents_first(self) -> tuple[str, ...]:
        order: list[str] = []
        state: dict[str, int] = {}

        def visit(name: str) -> None:
            if state.get(name) == 2:
                return
            if state.get(name) == 1:
                raise ValueError(f"{name} feeds itself")
            state[name] = 1
            group = self._power.groups.get(name)
            for parent in group.members if group is not None else self.parents(name):
                visit(parent)
            state[name] = 2
            if group is None:
                order.append(name)

        for name in self.elements:
            visit(name)
        return tuple(order)

    def _flow(self, lost: frozenset[str], flat: frozenset[str]) -> Flow:
        """Solve one state. `flat` are UPSs whose batteries are exhausted."""
        alive: dict[str, bool] = {}
        unfed = np.zeros(len(self.elements), dtype=np.bool_)
        for name in self._order:
            element = self._power.elements[name]
            if name in lost or name in self.maintenance:
                alive[name] = False
                continue
            fed = element.kind == "source" or any(
                self._alive(parent, alive) for parent in self.parents(name)
            )
            battery = element.kind == "ups" and element.autonomy is not None and name not in flat
            alive[name] = fed or battery
            unfed[self._position[name]] = battery and not fed
        shares, dark = self._shares(alive)
        weights = np.zeros((len(self.elements), len(self.loads)))
        for (row, _, parent), share in zip(self.columns, shares, strict=True):
            for name, part in self._spread(parent, alive).items():
                weights[self._position[name], row] += share * part
        for name in reversed(self._order):
            line = weights[self._position[name]]
            if not alive[name] or not line.any():
                continue
            for parent, part in self._upstream(name, alive).items():
                weights[self._position[parent]] += part * line
        dead = np.array([not alive[name] for name in self.elements], dtype=np.bool_)
        return Flow(dead, unfed, dark, weights, shares)

    def _alive(self, name: str, alive: Mapping[str, bool]) -> bool:
        group = self._power.groups.get(name)
        if group is None:
            return alive[name]
        living = sum(self._alive(member, alive) for member in group.members)
        return living >= (group.needs if group.needs is not None else len(group.members))

    def _spread(self, name: str, alive: Mapping[str, bool]) -> dict[str, float]:
        """Elements that carry a unit of load hung on `name`, and how much each."""
        group = self._power.groups.get(name)
        if group is None:
            return {name: 1.0} if alive[name] else {}
        living = [m for m in group.members if self._alive(m, alive)]
        if not self._alive(name, alive):
            return {}
        return _sum_parts(self._spread(member, alive) for member in living)

    def _upstream(self, name: str, alive: Mapping[str, bool]) -> dict[str, float]:
        living = [p for p in self.parents(name) if self._alive(p, alive)]
        if self._power.elements[name].transfer is not None:
            living = living[:1]
        return _sum_parts(self._spread(parent, alive) for parent in living)

    def _shares(self, alive: Mapping[str, bool]) -> tuple[FloatArray, BoolArray]:
        shares: list[float] = []
        dark = np.zeros(len(self.loads), dtype=np.bool_)
        for row, load in enumerate(self._feeds):
            living = [feed for feed, parent in load.feeds.items() if self._alive(parent, alive)]
            dark[row] = len(living) < load.needs
            wanted = {
                feed: 1.0 if load.split is None else load.split.get(feed, 0.0) for feed in living
            }
            if load.psu == "hot_spare":
                wanted = {feed: float(i == 0) for i, feed in enumerate(living)}
            total = sum(wanted.values())
            if total <= 0.0:
                wanted, total = dict.fromkeys(living, 1.0), float(len(living))
            for feed in load.feeds:
                up = feed in wanted and not dark[row]
                shares.append(wanted[feed] / total if up else 0.0)
        return np.array(shares, dtype=np.float64), dark

    def _contingencies(
        self, lost: frozenset[str], flat: frozenset[str]
    ) -> tuple[FloatArray, FloatArray]:
        """Every further single loss, stacked.

        Returns:
            weights float64[K, L] and limits float64[K] of the rated elements alive in each case.
        """
        present = self.flow(lost, flat)
        rows: list[FloatArray] = []
        limits: list[FloatArray] = []
        for i, name in enumerate(self.elements):
            if present.dead[i]:
                continue
            case = self.flow(lost | {name}, flat)
            rated = np.isfinite(self.limit_w) & ~case.dead
            rows.append(case.weights[rated])
            limits.append(self.limit_w[rated])
        if not rows:
            return np.zeros((0, len(self.loads))), np.zeros(0)
        weights, limit = np.vstack(rows), np.concatenate(limits)
        unique = np.unique(np.column_stack([weights, limit]), axis=0)
        return unique[:, :-1], unique[:, -1]


def _sum_parts(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The equal mix of several spreads."""
    listed = list(parts)
    mixed: dict[str, float] = {}
    for spread in listed:
        for name, part in spread.items():
            mixed[name] = mixed.get(name, 0.0) + part / len(listed)
    return mixed
