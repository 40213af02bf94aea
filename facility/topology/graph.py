"""Who is alive and where each watt flows, in every case: the compiled form of a topology.

A node is an element or a group. For a node that is alive, its *path* says which share of a watt
drawn from it flows through each element (the laws of sharing: equal among parents or members
alive; a switch takes all from one). A loss changes only what lies downstream of it, so only that
is compiled per case; everything else is the normal case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from facility import config
from facility.points import FloatArray, IntArray
from facility.topology.problems import parents_of

BoolArray = npt.NDArray[np.bool_]
Path = dict[int, float]
#: Which side a switch takes its power from; "unknown" counts the worse of both.
Source = Literal["normal", "alternate", "unknown"]


@dataclass(frozen=True)
class Compiled:
    """Cases of a topology as flat arrays.

    A *pair* is (case, load) for each load that the case can touch, and (normal, load) for all. A
    *pair feed* is one feed of a pair. An *entry* says that a watt on that feed puts `weight` W on
    an element in that case; an entry of weight 0 marks an element that the normal case loads.

    Attributes:
        lost: element index lost in each case, -1 for the normal case 0.
        dead: bool[K, E].
        up: bool[K, L].
        affected: bool[K, L]; whether the loss lies upstream of the load (False for case 0).
        pair_case, pair_load, pair_alive: int[P]; number of feeds alive in `pair_alive`.
        feed_pair, feed_column: int[Q]; feed_alive: bool[Q].
        entry_feed, entry_element: int[N]; entry_weight: float64[N].
    """

    lost: IntArray
    dead: BoolArray
    up: BoolArray
    affected: BoolArray
    pair_case: IntArray
    pair_load: IntArray
    pair_alive: IntArray
    feed_pair: IntArray
    feed_column: IntArray
    feed_alive: BoolArray
    entry_feed: IntArray
    entry_element: IntArray
    entry_weight: FloatArray


class Graph:
    """Elements and groups by index, parents first, with the laws of life and sharing."""

    def __init__(self, power: config.Power, sources: Mapping[str, Source]) -> None:
        self.names = (*power.elements, *power.groups)
        self.element_count = len(power.elements)
        index = {name: i for i, name in enumerate(self.names)}
        parents = parents_of(power)
        self.parents = [tuple(index[p] for p in parents[name]) for name in self.names]
        self.children: list[list[int]] = [[] for _ in self.names]
        for child, above in enumerate(self.parents):
            for parent in above:
                self.children[parent].append(child)
        self.order = self._parents_first()
        self.needs = [
            (group.needs if group.needs is not None else len(group.members))
            for group in power.groups.values()
        ]
        self.rootless = [
            e.kind == "source" or (e.kind == "ups" and (e.autonomy or 0.0) > 0.0)
            for e in power.elements.values()
        ]
        self.switch: dict[int, Source] = {
            index[name]: sources.get(name, "normal")
            for name, element in power.elements.items()
            if element.transfer is not None
        }
        # A `load:NAME` in maintenance matters to cooling alone.
        self.maintenance = frozenset(index[n] for n in power.maintenance if n in index)
        loads = (*power.racks.values(), *power.loads.values())
        self.feeds = [tuple(index[p] for p in load.feeds.values()) for load in loads]
        self.load_needs = [load.needs for load in loads]
        self.below: dict[int, list[int]] = {}
        for load, feeds in enumerate(self.feeds):
            for node in dict.fromkeys(feeds):
                self.below.setdefault(node, []).append(load)

    def _parents_first(self) -> list[int]:
        waiting = [len(set(above)) for above in self.parents]
        ready = [i for i, count in enumerate(waiting) if count == 0]
        order: list[int] = []
        while ready:
            node = ready.pop()
            order.append(node)
            for child in dict.fromkeys(self.children[node]):
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        if len(order) != len(self.names):
            raise ValueError("the topology has a cycle; topology_problems() names it")
        return order

    def downstream(self, node: int) -> set[int]:
        """The node itself and everything that hangs on it, by structure."""
        seen, stack = {node}, [node]
        while stack:
            for child in self.children[stack.pop()]:
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return seen

    def is_alive(self, node: int, alive: list[bool], lost: frozenset[int]) -> bool:
        """Whether a node lives, given its parents."""
        if node in lost:
            return False
        above = self.parents[node]
        if node >= self.element_count:
            return sum(alive[p] for p in above) >= self.needs[node - self.element_count]
        return self.rootless[node] or any(alive[p] for p in above)

    def path(self, node: int, alive: list[bool], paths: list[Path]) -> Path:
        """Share of a watt at `node` that flows through each element; empty when it is dead."""
        if not alive[node]:
            return {}
        living = [p for p in self.parents[node] if alive[p]]
        out: Path = {node: 1.0} if node < self.element_count else {}
        if node in self.switch and living:
            return self._switched(node, alive, paths, out)
        for parent in living:
            for element, share in paths[parent].items():
                out[element] = out.get(element, 0.0) + share / len(living)
        return out

    def _switched(self, node: int, alive: list[bool], paths: list[Path], out: Path) -> Path:
        normal, alternate = self.parents[node]
        wanted = {"normal": [normal], "alternate": [alternate], "unknown": [normal, alternate]}
        chosen = [p for p in wanted[self.switch[node]] if alive[p]]
        for parent in chosen or [p for p in (normal, alternate) if alive[p]]:
            for element, share in paths[parent].items():
                out[element] = max(out.get(element, 0.0), share)
        return out


def compile_cases(graph: Graph) -> Compiled:
    """Lay out the normal case and the loss of each element that is not in maintenance."""
    nodes, elements = len(graph.names), graph.element_count
    alive = [False] * nodes
    paths: list[Path] = [{} for _ in range(nodes)]
    for node in graph.order:
        alive[node] = graph.is_alive(node, alive, graph.maintenance)
        paths[node] = graph.path(node, alive, paths)
    build = _Build(graph, [_base_path(graph, paths, feeds) for feeds in graph.feeds])
    build.add(-1, alive, paths, range(len(graph.feeds)))
    rank = {node: i for i, node in enumerate(graph.order)}
    for element in range(elements):
        if element in graph.maintenance:
            continue
        touched = sorted(graph.downstream(element), key=rank.__getitem__)
        lost = graph.maintenance | {element}
        alive_k, paths_k = list(alive), list(paths)
        for node in touched:
            alive_k[node] = graph.is_alive(node, alive_k, lost)
            paths_k[node] = graph.path(node, alive_k, paths_k)
        loads = sorted({load for node in touched for load in graph.below.get(node, ())})
        build.add(element, alive_k, paths_k, loads)
    return build.done()


def _base_path(graph: Graph, paths: list[Path], feeds: Iterable[int]) -> list[int]:
    return sorted({element for feed in feeds for element in paths[feed]})


class _Build:
    """Collects the cases; loads on the same feeds share what one of them sees.

    A *sight* is what loads with equal feeds and needs see in one case: which feeds live, and what
    a watt on each puts where. A hall has a hundred times fewer of them than (case, load) pairs.
    """

    def __init__(self, graph: Graph, base: list[list[int]]) -> None:
        self.graph, self.base = graph, base
        kinds: dict[tuple[tuple[int, ...], int], int] = {}
        self.kind_of = [
            kinds.setdefault((feeds, needs), len(kinds))
            for feeds, needs in zip(graph.feeds, graph.load_needs, strict=True)
        ]
        self.lost: list[int] = []
        self.dead: list[list[bool]] = []
        self.pair_case: list[int] = []
        self.pair_load: list[int] = []
        self.pair_sight: list[int] = []
        self.living: list[int] = []
        self.up: list[bool] = []
        self.feed_alive: list[bool] = []
        self.feed_ends: list[int] = [0]
        self.offset: list[int] = []
        self.element: list[int] = []
        self.weight: list[float] = []
        self.entry_ends: list[int] = [0]

    def add(self, lost: int, alive: list[bool], paths: list[Path], loads: Iterable[int]) -> None:
        case = len(self.lost)
        self.lost.append(lost)
        self.dead.append([not a for a in alive[: self.graph.element_count]])
        seen: dict[int, int] = {}
        for load in loads:
            kind = self.kind_of[load]
            if kind not in seen:
                seen[kind] = self._look(load, case, alive, paths)
            self.pair_case.append(case)
            self.pair_load.append(load)
            self.pair_sight.append(seen[kind])

    def _look(self, load: int, case: int, alive: list[bool], paths: list[Path]) -> int:
        """The number of a new sight."""
        feeds = self.graph.feeds[load]
        living = sum(alive[f] for f in feeds)
        up = living >= self.graph.load_needs[load]
        self.living.append(living)
        self.up.append(up)
        for i, node in enumerate(feeds):
            self.feed_alive.append(alive[node])
            if up:
                self._entries(i, paths[node].keys(), paths[node].values())
        if case > 0:
            self._entries(0, self.base[load], [0.0] * len(self.base[load]))
        self.feed_ends.append(len(self.feed_alive))
        self.entry_ends.append(len(self.element))
        return len(self.up) - 1

    def _entries(self, offset: int, elements: Iterable[int], weights: Iterable[float]) -> None:
        self.element.extend(elements)
        self.weight.extend(weights)
        self.offset.extend([offset] * (len(self.element) - len(self.offset)))

    def done(self) -> Compiled:
        loads, cases = len(self.graph.feeds), len(self.lost)
        case, load, sight = (
            np.array(column, dtype=np.int64)
            for column in (self.pair_case, self.pair_load, self.pair_sight)
        )
        feeds = np.array([len(f) for f in self.graph.feeds], dtype=np.int64)
        first_column, first_row = np.cumsum(feeds) - feeds, np.cumsum(feeds[load]) - feeds[load]
        feed_pair, feed_at = _spread(np.array(self.feed_ends), sight)
        entry_pair, entry_at = _spread(np.array(self.entry_ends), sight)
        up = np.zeros((cases, loads), dtype=np.bool_)
        up[case, load] = np.array(self.up, dtype=np.bool_)[sight]
        affected = np.zeros((cases, loads), dtype=np.bool_)
        affected[case, load] = case > 0
        offset = np.array(self.offset, dtype=np.int64)
        return Compiled(
            lost=np.array(self.lost, dtype=np.int64),
            dead=np.array(self.dead, dtype=np.bool_).reshape(cases, self.graph.element_count),
            up=np.where(affected, up, up[:1]),
            affected=affected,
            pair_case=case,
            pair_load=load,
            pair_alive=np.array(self.living, dtype=np.int64)[sight],
            feed_pair=feed_pair,
            feed_column=first_column[load][feed_pair]
            + np.arange(len(feed_pair))
            - first_row[feed_pair],
            feed_alive=np.array(self.feed_alive, dtype=np.bool_)[feed_at],
            entry_feed=first_row[entry_pair] + offset[entry_at],
            entry_element=np.array(self.element, dtype=np.int64)[entry_at],
            entry_weight=np.array(self.weight, dtype=np.float64)[entry_at],
        )


def _spread(ends: IntArray, which: IntArray) -> tuple[IntArray, IntArray]:
    """Stretches laid side by side: for each item its stretch, and where it stands.

    Args:
        ends: where each stretch ends and the next begins, from 0.
        which: the stretches, in order.
    """
    lengths = (ends[1:] - ends[:-1])[which]
    of = np.repeat(np.arange(len(which)), lengths)
    before = np.cumsum(lengths) - lengths
    return of, ends[:-1][which][of] + np.arange(len(of)) - before[of]
