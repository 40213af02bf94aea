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
    """Collects pairs, feeds and entries case by case."""

    def __init__(self, graph: Graph, base: list[list[int]]) -> None:
        self.graph, self.base = graph, base
        self.first_column = np.cumsum([0, *(len(f) for f in graph.feeds)]).tolist()
        self.lost: list[int] = []
        self.dead: list[list[bool]] = []
        self.up: list[list[bool]] = []
        self.affected: list[list[bool]] = []
        self.pairs: list[tuple[int, int, int]] = []
        self.feeds: list[tuple[int, int, bool]] = []
        self.entry_feed: list[int] = []
        self.entry_element: list[int] = []
        self.entry_weight: list[float] = []

    def add(self, lost: int, alive: list[bool], paths: list[Path], loads: Iterable[int]) -> None:
        graph, case = self.graph, len(self.lost)
        self.lost.append(lost)
        self.dead.append([not a for a in alive[: graph.element_count]])
        up = list(self.up[0]) if self.up else [False] * len(graph.feeds)
        affected = [False] * len(graph.feeds)
        for load in loads:
            feeds = graph.feeds[load]
            living = sum(alive[f] for f in feeds)
            up[load] = living >= graph.load_needs[load]
            affected[load] = case > 0
            pair = len(self.pairs)
            self.pairs.append((case, load, living))
            first = len(self.feeds)
            for i, node in enumerate(feeds):
                row = len(self.feeds)
                self.feeds.append((pair, self.first_column[load] + i, alive[node]))
                if up[load]:
                    self._entries(row, paths[node].keys(), paths[node].values())
            if case > 0:
                self._entries(first, self.base[load], [0.0] * len(self.base[load]))
        self.up.append(up)
        self.affected.append(affected)

    def _entries(self, row: int, elements: Iterable[int], weights: Iterable[float]) -> None:
        before = len(self.entry_element)
        self.entry_element.extend(elements)
        self.entry_weight.extend(weights)
        self.entry_feed.extend([row] * (len(self.entry_element) - before))

    def done(self) -> Compiled:
        pairs = np.array(self.pairs, dtype=np.int64).reshape(-1, 3)
        feeds = np.array(self.feeds, dtype=np.int64).reshape(-1, 3)
        loads = len(self.graph.feeds)
        cases = len(self.lost)
        return Compiled(
            lost=np.array(self.lost, dtype=np.int64),
            dead=np.array(self.dead, dtype=np.bool_).reshape(cases, self.graph.element_count),
            up=np.array(self.up, dtype=np.bool_).reshape(cases, loads),
            affected=np.array(self.affected, dtype=np.bool_).reshape(cases, loads),
            pair_case=pairs[:, 0],
            pair_load=pairs[:, 1],
            pair_alive=pairs[:, 2],
            feed_pair=feeds[:, 0],
            feed_column=feeds[:, 1],
            feed_alive=feeds[:, 2].astype(np.bool_),
            entry_feed=np.array(self.entry_feed, dtype=np.int64),
            entry_element=np.array(self.entry_element, dtype=np.int64),
            entry_weight=np.array(self.entry_weight, dtype=np.float64),
        )
