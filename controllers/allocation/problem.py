"""What an allocation has to solve: nodes with curves and bounds, loads, and what must hold.

    maximise Σ v·g·min(T(c), D) − Σ λ·P(c)   subject to   Σ w·P(c) ≤ limit, every case and element,
    Σ heat share·P(c) ≤ heat capacity left, c ≤ thermal cap, floor ≤ c ≤ max

with P of a rack the greater of its metered peak (with the meter's accuracy) and O_r + Σ(O_n +
(1 + ε_b)·g·c/η_psu). Sources: control laws §1 (load of a rack) and §2 (allocation).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from controllers.allocation.bounds import OVERRIDE, Bounds, bounds_of, say_high
from controllers.allocation.curves import Curves, Units
from controllers.allocation.heat import HeatRow
from controllers.allocation.lumps import Lumps
from controllers.allocation.table import CLASSES as CLASSES
from controllers.allocation.table import Table
from facility import config
from facility.points import FloatArray, IntArray
from facility.topology import Shares, Topology
from facility.topology.graph import BoolArray

Policy = Literal["efficiency", "throughput"]


@dataclass(frozen=True)
class Problem:
    """One allocation problem; equal problems have equal digests and equal plans.

    N nodes in file order, U units (nodes with one `group` share a cap), L loads.

    Attributes:
        table: what never changes of the nodes.
        claimed: bool[N]; whether a node's curve was stated or learned, so that tokens are claimed.
        base_w: float64[L]; W of a load at caps of zero (overheads), or the whole load where no
            node of it is managed.
        metered_w: float64[L]; metered peak with its accuracy, 0 where none counts.
        per_w: float64[N]; W on the rack per W of cap: g·(1 + ε_b)/η_psu.
        rack: int64[N]; load index.
        lumps: units that pull alike.
        units: curves and bounds.
        why: int64[U]; what sets the greatest cap.
        price_w: float64[L]; λ of each rack, worth per W.
        fixed: node -> W per GPU, from operators.
    """

    topology: Topology = field(repr=False)
    shares: Shares = field(repr=False)
    policy: Policy
    table: Table = field(repr=False)
    claimed: BoolArray = field(repr=False)
    base_w: FloatArray = field(repr=False)
    metered_w: FloatArray = field(repr=False)
    per_w: FloatArray = field(repr=False)
    rack: IntArray = field(repr=False)
    lumps: Lumps = field(repr=False)
    units: Units = field(repr=False)
    why: IntArray = field(repr=False)
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
        power, table = topology.power, Table.of(nodes)
        factor = (1.0 + power.board_accuracy) / power.psu_efficiency
        known, claimed = table.with_learned(curves or {}, demand or {})
        bounds, units = _bounded(table, known, thermal_w or {}, ceiling_w or {}, fixed_w or {})
        layout = _layout(_Layout(table, topology.loads, factor))
        base = topology.nameplate_w.copy()
        for name, watts in (load_w or {}).items():
            base[topology.load_index[name]] = watts
        for name, i in zip(table.racks, layout.places, strict=True):
            base[i] = (overhead_w or {}).get(name, power.racks[name].overhead)
        base += np.bincount(layout.rack, table.overhead_w, len(base))
        meter = np.zeros(len(base))
        for name, watts in (metered_w or {}).items():
            if name in topology.load_index:
                meter[topology.load_index[name]] = watts * (1.0 + power.meter_accuracy)
        problem = cls(
            topology=topology,
            shares=Shares.of(topology, split, phases),
            policy="throughput",
            table=table,
            claimed=claimed,
            base_w=base,
            metered_w=meter,
            per_w=layout.per_w,
            rack=layout.rack,
            lumps=layout.lumps,
            units=units,
            why=bounds.why,
            price_w=np.zeros(len(base)),
            heat=tuple(heat),
            fixed=dict(fixed_w or {}),
            present_only=present_only,
        )
        return problem.priced(policy)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in file order."""
        return self.table.names

    @property
    def configs(self) -> tuple[config.Node, ...]:
        """Per node, as configured."""
        return self.table.configs

    @property
    def unit(self) -> IntArray:
        """int64[N]: the unit of each node."""
        return self.table.unit

    @property
    def rank(self) -> IntArray:
        """int64[U]: class of each unit, 0 low … 2 high."""
        return self.table.rank

    def say_high(self, which: IntArray) -> list[str]:
        """What sets the greatest cap of some units, for people."""
        return say_high(self.why[which], self.units.high[which])

    @cached_property
    def overridden(self) -> BoolArray:
        """bool[U]: the cap is an operator's."""
        return np.asarray(self.why == OVERRIDE)

    def priced(self, policy: Policy) -> Problem:
        """The same question under a policy: what a watt costs."""
        price = np.zeros(len(self.base_w))
        if policy == "efficiency":
            price = _best_prices(_Watts(self))
        return replace(self, policy=policy, price_w=price)

    def load_w(self, unit_caps_w: FloatArray) -> FloatArray:
        """float64[L], W: P of every load at caps of the units (W per GPU)."""
        managed = self.lumps.loads_w(self.lumps.amounts(unit_caps_w))
        return np.asarray(np.maximum(self.base_w + managed, self.metered_w))

    def unit_caps(self, caps_w: Mapping[str, float] | FloatArray) -> FloatArray:
        """float64[U]: caps of the units from caps by node; the greatest of a unit's members."""
        if isinstance(caps_w, Mapping):
            caps_w = np.array([caps_w[n] for n in self.nodes], dtype=np.float64)
        out = np.zeros(len(self.units.low))
        np.maximum.at(out, self.unit, caps_w)
        return out

    def unit_price(self, load_price: FloatArray) -> FloatArray:
        """float64[U]: price of a watt of a unit's cap, from prices of watts of loads."""
        return self.lumps.unit_prices(load_price)

    def objective(self, unit_caps_w: FloatArray) -> float:
        """Σ v·g·min(T, D) − Σ λ·P."""
        worth = float(self.units.worth(unit_caps_w).sum())
        return worth - float(self.price_w @ self.load_w(unit_caps_w))

    def for_fallback(self) -> Problem:
        """The same plant when nobody allocates: caps up to the configured fallback, preventive.

        Most tokens, loads without managed nodes at their rating, no metered peaks.
        """
        base = self.base_w.copy()
        alone = np.ones(len(base), dtype=np.bool_)
        alone[self.rack] = False
        base[alone] = self.topology.nameplate_w[alone]
        return replace(
            self,
            shares=self.shares.strict,
            policy="throughput",
            base_w=base,
            metered_w=np.zeros(len(base)),
            units=_fallen_back(self.table, _Curves(self.units.curves)),
            price_w=np.zeros(len(base)),
            fixed={},
            present_only=False,
        )

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that a plan depends on."""
        s, u, t = self.shares, self.units, self.table
        c = u.curves
        hashed = hashlib.sha256()
        names = (self.policy, *self.nodes, *self.topology.elements, *self.topology.loads)
        hashed.update("\n".join((*names, str(self.present_only))).encode())
        static = (t.gpus, t.min_cap_w, t.fallback_low_w, t.fallback_high_w, t.unit, t.rank)
        arrays = (self.base_w, self.metered_w, self.per_w, self.rack, self.why, self.claimed)
        more = (u.low, u.high, c.tm, c.c0, c.k, c.n, c.gain, c.demand, self.price_w)
        plant = (s.base_w, s.group_w, s.cell_limit_w, self.topology.compiled.lost)
        for array in (*static, *arrays, *more, *plant, *(row.share for row in self.heat)):
            hashed.update(np.ascontiguousarray(array).tobytes())
        for row in self.heat:
            hashed.update(f"{row.loop}/{row.case}/{row.capacity_w!r}".encode())
        for name in sorted(self.fixed):
            hashed.update(f"{name}={self.fixed[name]!r}".encode())
        return hashed.hexdigest()


class _Layout:
    """Where nodes hang and what they draw: a cache key, and what is kept under it."""

    def __init__(self, table: Table, loads: tuple[str, ...], factor: float) -> None:
        self.table, self.loads, self.factor = table, loads, factor

    def __hash__(self) -> int:
        return hash((id(self.table), len(self.loads), self.factor))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Layout)
            and other.table is self.table
            and other.factor == self.factor
            and other.loads == self.loads
        )


@dataclass(frozen=True, eq=False)
class _Placed:
    """Load index of each rack with nodes; of each node, with W drawn per W of cap; lumps."""

    places: tuple[int, ...]
    rack: IntArray
    per_w: FloatArray
    lumps: Lumps


@lru_cache(maxsize=16)
def _layout(key: _Layout) -> _Placed:
    table, index = key.table, {name: i for i, name in enumerate(key.loads)}
    places = tuple(index[name] for name in table.racks)
    rack = np.array(places, dtype=np.int64)[table.rack]
    per_w = table.gpus * key.factor
    lumps = Lumps.of(len(key.loads), table.unit, rack, per_w, table.units)
    return _Placed(places, rack, per_w, lumps)


def _bounded(
    table: Table,
    curves: Curves,
    thermal_w: Mapping[str, float],
    ceiling_w: Mapping[str, float],
    fixed_w: Mapping[str, float],
) -> tuple[Bounds, Units]:
    """Bounds and units; found again while nothing but the loads changes."""
    if curves is table.curves and not thermal_w and not ceiling_w and not fixed_w:
        return _unbounded(table)
    bounds = bounds_of(table, curves, thermal_w, ceiling_w, fixed_w)
    return bounds, Units.of(curves, table.unit, bounds.low_w, bounds.high_w)


@lru_cache(maxsize=8)
def _unbounded(table: Table) -> tuple[Bounds, Units]:
    bounds = bounds_of(table, table.curves, {}, {}, {})
    return bounds, Units.of(table.curves, table.unit, bounds.low_w, bounds.high_w)


@lru_cache(maxsize=8)
def _fallen_back(table: Table, curves: _Curves) -> Units:
    low, high = table.fallback_low_w, table.fallback_high_w
    return Units.of(curves.curves, table.unit, low, high)


class _Curves:
    """Curves as a cache key, by identity."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves

    def __hash__(self) -> int:
        return id(self.curves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Curves) and other.curves is self.curves


class _Watts:
    """What the best worth per watt of the racks depends on, as a cache key."""

    def __init__(self, problem: Problem) -> None:
        self.table, self.curves = problem.table, problem.units.curves
        self.rack, self.per_w, self.base_w = problem.rack, problem.per_w, problem.base_w
        managed = problem.base_w[np.unique(problem.rack)]
        self._key = (len(self.base_w), managed.tobytes(), self.rack.tobytes(), self.per_w.tobytes())

    def __hash__(self) -> int:
        return hash(self._key[1])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Watts)
            and other.table is self.table
            and other.curves is self.curves
            and other._key == self._key
        )


@lru_cache(maxsize=16)
def _best_prices(key: _Watts) -> FloatArray:
    """float64[L]: each rack's own best worth per watt, max of Σ v·g·T/P (Dinkelbach)."""
    table, c = key.table, key.curves
    racks = len(key.base_w)
    top = np.maximum(table.max_cap_w, table.floor_w)
    free = Curves(c.tm, c.c0, c.k, c.n, c.gain, np.full(len(c.tm), np.inf))
    alone = Units.of(free, np.arange(len(top)), table.floor_w, top)
    price = np.zeros(racks)
    for _ in range(100):
        cap = alone.best(price[key.rack] * key.per_w)
        worth = np.bincount(key.rack, free.worth(cap), racks)
        power = key.base_w + np.bincount(key.rack, key.per_w * cap, racks)
        better = np.where((worth > 0.0) & (power > 0.0), worth / np.maximum(power, 1e-300), 0.0)
        if np.all(better <= price * (1.0 + 1e-14)):
            break
        price = np.maximum(price, better)
    price.setflags(write=False)
    return price
