"""What an allocation has to solve: nodes with curves and bounds, loads, and what must hold.

    maximise Σ v·g·min(T(c), D) − Σ λ·P(c)   subject to   Σ w·P(c) ≤ limit, every case and element,
    Σ heat share·P(c) ≤ heat capacity left, c ≤ thermal cap, floor ≤ c ≤ max

with P of a rack the greater of its metered peak (with the meter's accuracy) and O_r + Σ(O_n +
(1 + ε_b)·g·c/η_psu). Sources: control laws §1 (load of a rack) and §2 (allocation).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from controllers.allocation.curves import Curves, Units, prior_curve, stack
from controllers.allocation.heat import HeatRow
from facility import config
from facility.points import FloatArray, IntArray
from facility.topology import Shares, Topology

Policy = Literal["efficiency", "throughput"]
#: Lowest class first.
CLASSES = ("low", "normal", "high")
#: What is offered counts with this margin.
DEMAND_MARGIN = 1.2
#: Watts that buy less than this share of a node's tokens are not wanted.
NOTHING = 1e-6


@dataclass(frozen=True)
class Problem:
    """One allocation problem; equal problems have equal digests and equal plans.

    N nodes in file order, U units (nodes with one `group` share a cap), L loads.

    Attributes:
        base_w: float64[L]; W of a load at caps of zero (overheads), or the whole load where no
            node of it is managed.
        metered_w: float64[L]; metered peak with its accuracy, 0 where none counts.
        per_w: float64[N]; W on the rack per W of cap: g·(1 + ε_b)/η_psu.
        rack, unit, rank: int64[N]; load index, unit, class (0 low … 2 high).
        high_because: per node, what sets its greatest cap.
        price_w: float64[L]; λ of each rack, worth per W.
        fixed: node -> W per GPU, from operators.
    """

    topology: Topology = field(repr=False)
    shares: Shares = field(repr=False)
    policy: Policy
    nodes: tuple[str, ...]
    configs: tuple[config.Node, ...] = field(repr=False)
    claimed: tuple[bool, ...] = field(repr=False)
    base_w: FloatArray = field(repr=False)
    metered_w: FloatArray = field(repr=False)
    per_w: FloatArray = field(repr=False)
    rack: IntArray = field(repr=False)
    unit: IntArray = field(repr=False)
    rank: IntArray = field(repr=False)
    units: Units = field(repr=False)
    high_because: tuple[str, ...] = field(repr=False)
    price_w: FloatArray = field(repr=False)
    heat: tuple[HeatRow, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    present_only: bool = False

    @classmethod
    def of(
        cls,
        topology: Topology,
        nodes: Mapping[str, config.Node],
        *,
        policy: Policy = "efficiency",
        load_w: Mapping[str, float] | None = None,
        split: FloatArray | None = None,
        phases: FloatArray | None = None,
        metered_w: Mapping[str, float] | None = None,
        overhead_w: Mapping[str, float] | None = None,
        curves: Mapping[str, config.Curve] | None = None,
        demand: Mapping[str, float] | None = None,
        thermal_w: Mapping[str, float] | None = None,
        ceiling_w: Mapping[str, float] | None = None,
        fixed_w: Mapping[str, float] | None = None,
        heat: Sequence[HeatRow] = (),
        losses: Sequence[str] = (),
        present_only: bool = False,
    ) -> Problem:
        """Put a problem together.

        Args:
            topology: the plant; `losses` are taken out of it.
            nodes: managed nodes.
            policy: what a watt costs (λ).
            load_w: W of loads without managed nodes; their rating where not named.
            split: float64[F]; None as in the file, NaN where not measured.
            phases: float64[F, 3]; None as in the file.
            metered_w: 5-min metered peaks of racks with nodes; the accuracy is added here. Left
                out in a file study.
            overhead_w: measured overhead of racks, in place of the stated one.
            curves: learned curves, in place of stated ones.
            demand: offered tok/s of nodes, in place of stated ones.
            thermal_w: greatest cap that cooling allows, W per GPU.
            ceiling_w: caps that must not be exceeded (no raises), W per GPU.
            fixed_w: overrides, W per GPU.
            heat: rows of the cooling loops.
            losses: elements that are out.
            present_only: hold the limits of the plant as it is, not those of further losses.
        """
        topology = topology.without(losses)
        names, configs = tuple(nodes), tuple(nodes.values())
        power = topology.power
        factor = (1.0 + power.board_accuracy) / power.psu_efficiency
        shape = [
            (curves or {}).get(name) or node.curve or prior_curve(node.gpu, node.max_cap)
            for name, node in nodes.items()
        ]
        claimed = tuple(
            name in (curves or {}) or node.curve is not None for name, node in nodes.items()
        )
        offered = [_offered(name, node, demand or {}) for name, node in nodes.items()]
        worth = [
            (node.worth if node.worth is not None and known else 1.0 / max(curve.tm, 1e-300))
            for node, curve, known in zip(configs, shape, claimed, strict=True)
        ]
        stacked = stack(shape, [n.gpus for n in configs], worth, offered)
        unit = _units(configs)
        low, high, because = _bounds(
            nodes, stacked, unit, thermal_w or {}, ceiling_w or {}, fixed_w or {}
        )
        rack = np.array([topology.load_index[n.rack] for n in configs], dtype=np.int64)
        per_w = np.array([n.gpus * factor for n in configs], dtype=np.float64)
        base = _base_w(topology, configs, rack, load_w or {}, overhead_w or {})
        meter = np.zeros(len(base))
        for name, watts in (metered_w or {}).items():
            if name in topology.load_index:
                meter[topology.load_index[name]] = watts * (1.0 + power.meter_accuracy)
        ranks = np.array([CLASSES.index(n.priority) for n in configs], dtype=np.int64)
        rank = np.zeros(len(low), dtype=np.int64)
        np.maximum.at(rank, unit, ranks)
        problem = cls(
            topology=topology,
            shares=Shares.of(topology, split, phases),
            policy=policy,
            nodes=names,
            configs=configs,
            claimed=claimed,
            base_w=base,
            metered_w=meter,
            per_w=per_w,
            rack=rack,
            unit=unit,
            rank=rank,
            units=Units.of(stacked, unit, low, high),
            high_because=because,
            price_w=np.zeros(len(base)),
            heat=tuple(heat),
            fixed=dict(fixed_w or {}),
            present_only=present_only,
        )
        return (
            replace(problem, price_w=problem.best_prices()) if policy == "efficiency" else problem
        )

    def load_w(self, unit_caps_w: FloatArray) -> FloatArray:
        """float64[L], W: P of every load at caps of the units (W per GPU)."""
        managed = np.bincount(self.rack, self.per_w * unit_caps_w[self.unit], len(self.base_w))
        return np.asarray(np.maximum(self.base_w + managed, self.metered_w))

    def unit_caps(self, caps_w: Mapping[str, float]) -> FloatArray:
        """float64[U]: caps of the units from caps by node; the greatest of a unit's members."""
        out = np.zeros(len(self.units.low))
        np.maximum.at(out, self.unit, np.array([caps_w[n] for n in self.nodes]))
        return out

    def unit_price(self, load_price: FloatArray) -> FloatArray:
        """float64[U]: price of a watt of a unit's cap, from prices of watts of loads."""
        node = self.per_w * load_price[self.rack]
        return np.bincount(self.unit, node, len(self.units.low)).astype(np.float64)

    def objective(self, unit_caps_w: FloatArray) -> float:
        """Σ v·g·min(T, D) − Σ λ·P."""
        worth = float(self.units.worth(unit_caps_w).sum())
        return worth - float(self.price_w @ self.load_w(unit_caps_w))

    def best_prices(self) -> FloatArray:
        """float64[L]: each rack's own best worth per watt, max of Σ v·g·T/P (Dinkelbach)."""
        racks = len(self.base_w)
        floor = np.array([_floor(n) for n in self.configs])
        top = np.array([max(n.max_cap, _floor(n)) for n in self.configs])
        c = self.units.curves
        free = Curves(c.tm, c.c0, c.k, c.n, c.gain, np.full(len(c.tm), np.inf))
        alone = Units.of(free, np.arange(len(floor)), floor, top)
        price = np.zeros(racks)
        for _ in range(100):
            cap = alone.best(price[self.rack] * self.per_w)
            worth = np.bincount(self.rack, free.worth(cap), racks)
            power = self.base_w + np.bincount(self.rack, self.per_w * cap, racks)
            better = np.where((worth > 0.0) & (power > 0.0), worth / np.maximum(power, 1e-300), 0.0)
            if np.all(better <= price * (1.0 + 1e-14)):
                break
            price = np.maximum(price, better)
        return price

    def for_fallback(self) -> Problem:
        """The same plant when nobody allocates: caps up to the configured fallback, preventive.

        Most tokens, loads without managed nodes at their rating, no metered peaks.
        """
        base = self.base_w.copy()
        alone = np.setdiff1d(np.arange(len(base)), self.rack)
        base[alone] = self.topology.nameplate_w[alone]
        low, high = _fallback_bounds(self.configs, self.unit)
        return replace(
            self,
            policy="throughput",
            base_w=base,
            metered_w=np.zeros(len(base)),
            units=Units.of(self.units.curves, self.unit, low, high),
            price_w=np.zeros(len(base)),
            fixed={},
            present_only=False,
        )

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that a plan depends on."""
        s, u = self.shares, self.units
        c = u.curves
        hashed = hashlib.sha256()
        names = (self.policy, *self.nodes, *self.topology.elements, *self.topology.loads)
        texts = (*names, *self.high_because, str(self.claimed), str(self.present_only))
        hashed.update("\n".join(texts).encode())
        for bound in _fallback_bounds(self.configs, self.unit):
            hashed.update(bound.tobytes())
        arrays = (self.base_w, self.metered_w, self.per_w, self.rack, self.unit, self.rank)
        more = (u.low, u.high, c.tm, c.c0, c.k, c.n, c.gain, c.demand, self.price_w)
        plant = (s.base_w, s.group_w, s.structure.limit_w, self.topology.compiled.lost)
        for array in (*arrays, *more, *plant, *(row.share for row in self.heat)):
            hashed.update(np.ascontiguousarray(array).tobytes())
        for row in self.heat:
            hashed.update(f"{row.loop}/{row.case}/{row.capacity_w!r}".encode())
        for name in sorted(self.fixed):
            hashed.update(f"{name}={self.fixed[name]!r}".encode())
        return hashed.hexdigest()


def _floor(node: config.Node) -> float:
    return node.min_cap if node.floor is None else max(node.floor, node.min_cap)


def _offered(name: str, node: config.Node, demand: Mapping[str, float]) -> float:
    offered = demand.get(name, node.demand)
    return math.inf if offered is None else DEMAND_MARGIN * offered / node.gpus


def _units(configs: Sequence[config.Node]) -> IntArray:
    seen: dict[str, int] = {}
    out = []
    for i, node in enumerate(configs):
        key = f"node {i}" if node.group is None else f"group {node.group}"
        out.append(seen.setdefault(key, len(seen)))
    return np.array(out, dtype=np.int64)


def _base_w(
    topology: Topology,
    configs: Sequence[config.Node],
    rack: IntArray,
    load_w: Mapping[str, float],
    overhead_w: Mapping[str, float],
) -> FloatArray:
    base = topology.nameplate_w.copy()
    for name, watts in load_w.items():
        base[topology.load_index[name]] = watts
    for i in np.unique(rack):
        name = topology.loads[i]
        base[i] = overhead_w.get(name, topology.power.racks[name].overhead)
    for i, node in zip(rack, configs, strict=True):
        base[i] += node.overhead
    return base


def _bounds(
    nodes: Mapping[str, config.Node],
    curves: Curves,
    unit: IntArray,
    thermal_w: Mapping[str, float],
    ceiling_w: Mapping[str, float],
    fixed_w: Mapping[str, float],
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Least and greatest cap of each unit, and per node what sets the greatest.

    A thermal cap goes below a floor, never below what the board accepts: floors bind the
    contingency limits only.
    """
    count = int(unit.max()) + 1 if len(unit) else 0
    low, high = np.zeros(count), np.full(count, np.inf)
    because = [""] * count
    enough = curves.cap_for(curves.demand)
    for i, (name, node) in enumerate(nodes.items()):
        u = unit[i]
        low[u] = max(low[u], _floor(node))
        candidates = [(node.max_cap, f"its greatest cap, {node.max_cap:.0f} W")]
        if name in thermal_w:
            limit = max(thermal_w[name], node.min_cap)
            candidates.append((limit, f"cooling allows {limit:.0f} W"))
        if name in ceiling_w:
            limit = max(ceiling_w[name], node.min_cap)
            candidates.append((limit, f"no raises now, {limit:.0f} W in force"))
        top, why = min(candidates, key=lambda pair: pair[0])
        if top < high[u]:
            high[u], because[u] = top, why
    low = np.minimum(low, high)
    served = np.zeros(count)
    np.maximum.at(served, unit, enough)
    useful = np.zeros(count)
    np.maximum.at(useful, unit, curves.cap_for(curves.tokens(high[unit]) * (1.0 - NOTHING)))
    for u in range(count):
        if served[u] < high[u]:
            high[u] = max(low[u], served[u])
            because[u] = f"demand is met at {high[u]:.0f} W"
        if useful[u] < 0.99 * high[u]:
            high[u] = max(low[u], useful[u])
            because[u] = f"more than {high[u]:.0f} W buys no tokens"
    for i, name in enumerate(nodes):
        if name in fixed_w:
            low[unit[i]] = high[unit[i]] = fixed_w[name]
            because[unit[i]] = f"override to {fixed_w[name]:.0f} W"
    return low, high, tuple(because[u] for u in unit)


def _fallback_bounds(
    configs: Sequence[config.Node], unit: IntArray
) -> tuple[FloatArray, FloatArray]:
    count = int(unit.max()) + 1 if len(unit) else 0
    low, high = np.zeros(count), np.full(count, np.inf)
    for u, node in zip(unit, configs, strict=True):
        floor = _floor(node)
        configured = floor if node.fallback is None else node.fallback
        low[u] = max(low[u], floor)
        high[u] = min(high[u], max(configured, floor))
    return np.minimum(low, high), high
