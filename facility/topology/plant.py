"""The power topology of a site, compiled: elements, loads, feeds, limits and cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from facility import config
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray, Compiled, Graph, Source, compile_cases
from facility.topology.problems import load_out, topology_problems
from facility.topology.ratings import limit_of

NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Case:
    """One state of the plant that must be survivable.

    Attributes:
        name: "normal" or "loss of X".
        lost: X, or None in the normal case.
        dead: elements dead in it, in file order (maintenance included).
        dark: loads (racks and others) down in it, in file order.
    """

    index: int
    name: str
    lost: str | None
    dead: tuple[str, ...]
    dark: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """A power section that is free of faults, compiled once.

    Attributes:
        elements, kinds: in file order.
        rating_w, limit_w: float64[E], W; inf when unrated. `limit_w` is what may flow for hours.
        phase_limit_w: float64[E], W per phase of a three-phase amp rating, else inf.
        power_factor: float64[E]; NaN where all ratings are in W.
        share: float64[E]; part of an element that is this hall's. The W above are of that part;
            a meter reads the whole.
        racks, loads: racks in file order; loads = racks, then everything else.
        feeds: (load, feed name) of each column.
        feed_load: int64[F]; load index of each column.
        nameplate_w: float64[L]; `rating` of each load.
        split: float64[F]; normal split as written, equal where nothing is written.
        hot_spare: bool[L].
        phases: float64[F, 3]; share of L1..L3 of each feed, a third each where nothing is stated.
        phases_stated: bool[F].
        compiled: the cases as flat arrays.
    """

    power: config.Power = field(repr=False)
    sources: Mapping[str, Source]
    elements: tuple[str, ...]
    kinds: tuple[str, ...]
    rating_w: FloatArray = field(repr=False)
    limit_w: FloatArray = field(repr=False)
    phase_limit_w: FloatArray = field(repr=False)
    power_factor: FloatArray = field(repr=False)
    share: FloatArray = field(repr=False)
    racks: tuple[str, ...]
    loads: tuple[str, ...]
    feeds: tuple[tuple[str, str], ...]
    feed_load: IntArray = field(repr=False)
    nameplate_w: FloatArray = field(repr=False)
    split: FloatArray = field(repr=False)
    hot_spare: BoolArray = field(repr=False)
    phases: FloatArray = field(repr=False)
    phases_stated: BoolArray = field(repr=False)
    compiled: Compiled = field(repr=False)

    @classmethod
    def of(cls, power: config.Power, sources: Mapping[str, Source] | None = None) -> Topology:
        """Compile a power section.

        Args:
            power: as loaded.
            sources: measured position of switches; a switch not named takes from `normal`.

        Raises:
            ValueError: the section has faults; `topology_problems` lists them.
        """
        faults = topology_problems(power)
        if faults:
            raise ValueError("; ".join(f"{path}: {problem}" for path, problem, _ in faults))
        limits = [limit_of(element) for element in power.elements.values()]
        all_loads = {**power.racks, **power.loads}
        feeds = tuple((name, feed) for name, load in all_loads.items() for feed in load.feeds)
        split, phases, stated = [], [], []
        for load in all_loads.values():
            for feed in load.feeds:
                split.append(1.0 if load.split is None else float(load.split.get(feed, 0.0)))
                shares = (load.phases or {}).get(feed)
                stated.append(shares is not None)
                phases.append(phase_row(shares))
        factors = [np.nan if x.power_factor is None else x.power_factor for x in limits]
        return cls(
            power=power,
            sources=dict(sources or {}),
            elements=tuple(power.elements),
            kinds=tuple(element.kind for element in power.elements.values()),
            rating_w=np.array([x.rating_w for x in limits], dtype=np.float64),
            limit_w=np.array([x.limit_w for x in limits], dtype=np.float64),
            phase_limit_w=np.array([x.phase_limit_w for x in limits], dtype=np.float64),
            power_factor=np.array(factors, dtype=np.float64),
            share=np.array([x.share for x in limits], dtype=np.float64),
            racks=tuple(power.racks),
            loads=tuple(all_loads),
            feeds=feeds,
            feed_load=np.repeat(
                np.arange(len(all_loads)), [len(load.feeds) for load in all_loads.values()]
            ),
            nameplate_w=np.array([x.rating for x in all_loads.values()], dtype=np.float64),
            split=np.array(split, dtype=np.float64),
            hot_spare=np.array([x.psu == "hot_spare" for x in all_loads.values()], dtype=np.bool_),
            phases=np.array(phases, dtype=np.float64).reshape(-1, 3),
            phases_stated=np.array(stated, dtype=np.bool_),
            compiled=compile_cases(Graph(power, sources or {})),
        )

    def without(self, lost: Iterable[str]) -> Topology:
        """The same plant with more elements out: maintenance, what-if, or real losses.

        `load:NAME` takes a load out for cooling: it gives no flow, but it still draws power.

        Raises:
            KeyError: a name that is no element, and no `load:NAME`.
        """
        more = [name for name in dict.fromkeys(lost) if name not in self.power.maintenance]
        for name in more:
            if name not in self.power.elements and load_out(name) not in self.power.loads:
                raise KeyError(name)
        if not more:
            return self
        # What is out changes nothing but the cases.
        maintenance = (*self.power.maintenance, *more)
        power = self.power.model_copy(update={"maintenance": maintenance})
        return replace(self, power=power, compiled=compile_cases(Graph(power, self.sources)))

    def with_sources(self, sources: Mapping[str, Source]) -> Topology:
        """The same plant with its switches where they are measured to be."""
        wanted = {**self.sources, **sources}
        return self if wanted == self.sources else Topology.of(self.power, wanted)

    @cached_property
    def metered_limit_w(self) -> FloatArray:
        """float64[E]: limit of the whole element, other halls' part included: what a meter sees."""
        return self.limit_w / self.share

    @cached_property
    def idle(self) -> frozenset[int]:
        """Indexes of loads in maintenance: alive or not, they cool nothing."""
        names = (load_out(name) for name in self.power.maintenance)
        return frozenset(self.load_index[name] for name in names if name in self.load_index)

    @cached_property
    def case_names(self) -> tuple[str, ...]:
        """Name of each case; 0 is "normal"."""
        lost = self.compiled.lost.tolist()
        return tuple(NORMAL if e < 0 else f"loss of {self.elements[e]}" for e in lost)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Every case with what is dead and dark in it; case 0 is normal."""
        out = []
        for k, name in enumerate(self.case_names):
            lost = int(self.compiled.lost[k])
            dead = tuple(self.elements[e] for e in np.flatnonzero(self.compiled.dead[k]))
            dark = tuple(self.loads[i] for i in np.flatnonzero(~self.compiled.up[k]))
            out.append(Case(k, name, None if lost < 0 else self.elements[lost], dead, dark))
        return tuple(out)

    @cached_property
    def element_index(self) -> dict[str, int]:
        """Element name -> row."""
        return {name: i for i, name in enumerate(self.elements)}

    @cached_property
    def load_index(self) -> dict[str, int]:
        """Rack or load name -> index."""
        return {name: i for i, name in enumerate(self.loads)}

    @cached_property
    def feed_index(self) -> dict[tuple[str, str], int]:
        """(load, feed) -> column."""
        return {feed: i for i, feed in enumerate(self.feeds)}

    @cached_property
    def feed_counts(self) -> IntArray:
        """int64[L]: how many feeds each load has."""
        return np.bincount(self.feed_load, minlength=len(self.loads)).astype(np.int64)

    @cached_property
    def carries(self) -> BoolArray:
        """bool[E, F]: whether an element carries a feed in the normal case."""
        c = self.compiled
        normal = (c.pair_case[c.feed_pair[c.entry_feed]] == 0) & (c.entry_weight > 0.0)
        out = np.zeros((len(self.elements), len(self.feeds)), dtype=np.bool_)
        out[c.entry_element[normal], c.feed_column[c.entry_feed[normal]]] = True
        return out

    @cached_property
    def carries_load(self) -> BoolArray:
        """bool[E, L]: whether an element carries some feed of a load in the normal case."""
        out = np.zeros((len(self.elements), len(self.loads)), dtype=np.bool_)
        element, feed = np.nonzero(self.carries)
        out[element, self.feed_load[feed]] = True
        return out

    @cached_property
    def dead_feeds(self) -> BoolArray:
        """bool[F]: feeds without supply in the normal case."""
        c = self.compiled
        dead = (c.pair_case[c.feed_pair] == 0) & ~c.feed_alive
        out = np.zeros(len(self.feeds), dtype=np.bool_)
        out[c.feed_column[dead]] = True
        return out

    @cached_property
    def load_needs(self) -> IntArray:
        """int64[L]: how many feeds each load needs."""
        all_loads = (*self.power.racks.values(), *self.power.loads.values())
        return np.array([load.needs for load in all_loads], dtype=np.int64)


def phase_row(shares: Mapping[Any, float] | None) -> tuple[float, float, float]:
    """Shares of L1, L2, L3; a third each where nothing is stated, 0 for a phase not named."""
    if shares is None:
        return (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
    return (shares.get("L1", 0.0), shares.get("L2", 0.0), shares.get("L3", 0.0))
