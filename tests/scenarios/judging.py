"""A judge who sees the plant's truth at every step and shares no code with the controllers.

What it holds them to, from the control laws: every cap that rises leaves room for every single
loss in the plant as it really is; no cap rises while a meter on its paths has long been dead; the
cap in force that a cycle assumes is never below a board's true limit, and the load that it assumes
never below what the rack truly draws, so a missing meter never counts as 0 W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from api.service.service import Service
from drivers.sim.plant.world import World
from facility.commands import Decision
from facility.config import Facility
from facility.points import FloatArray

#: Until a loss has been seen and what was sent before has arrived: poll, cycle, deadline, answer.
IN_FLIGHT_S = 6.0
#: A meter dead for this long is known to be dead, and what was sent before has arrived.
KNOWN_DEAD_S = 10.0
#: A decision knows it earlier: a look, its patience, a cycle.
DECIDED_S = 7.0


@dataclass
class Judge:
    """Watches one run.

    Attributes:
        wrong: what broke a law, in words; empty after a good run.
        raises: limits of boards that rose; cycles: decisions that were looked at.
    """

    wrong: list[str] = field(default_factory=list)
    raises: int = 0
    cycles: int = 0
    _world: World | None = None
    _meters: dict[str, frozenset[str]] = field(default_factory=dict)
    _dead_since_s: dict[str, float] = field(default_factory=dict)
    _states: list[tuple[float, frozenset[str], frozenset[str]]] = field(default_factory=list)
    _limit_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    _rack_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    _seen: Any = None

    def __call__(self, world: World, service: Service) -> None:
        """Look at the moment after a step."""
        if self._world is None:
            self._begin(world)
            self._seen = service.decision()
        plant = world.plant.truth
        state = (plant.lost, plant.flat)
        if self._states[-1][1:] != state:
            self._states.append((plant.t_s, *state))
        for device in set().union(*self._meters.values()):
            if world.plant.device_health(device) == "dead" or self._mute(device):
                self._dead_since_s.setdefault(device, plant.t_s)
            else:
                self._dead_since_s.pop(device, None)
        decision = service.decision()
        if decision is not None and decision is not self._seen:
            self._seen = decision
            self._weigh(decision.facts)
            self._trust(decision)
        self._limit_w, self._rack_w = plant.bank.limit_w.copy(), plant.rack_w.copy()

    def _begin(self, world: World) -> None:
        self._world = world
        plant = world.plant.truth
        self._states = [(-1e9, plant.lost, plant.flat)]
        self._limit_w, self._rack_w = plant.bank.limit_w.copy(), plant.rack_w.copy()
        self._meters = meters_on_paths(plant.hall.facility)
        inner: Callable[[str, int, float], None] = world.plant.set_gpu_limit

        def set_gpu_limit(node: str, board: int, watts: float) -> None:
            before = float(plant.bank.limit_w[plant.board_index(node, board)])
            inner(node, board, watts)
            if watts > before + 0.5:
                self._rose(node, watts)

        # The one door through which limits reach the plant.
        world.plant.set_gpu_limit = set_gpu_limit  # type: ignore[method-assign]

    def _mute(self, device: str) -> bool:
        assert self._world is not None
        return self._world.plant.value(device, "total", "active_power") is None

    def _rose(self, node: str, watts: float) -> None:
        assert self._world is not None
        if self._world.over:
            return
        plant = self._world.plant.truth
        self.raises += 1
        rack = plant.hall.facility.nodes[node].rack
        where = f"{plant.t_s:.1f} s: {node} rose to {watts:.0f} W"
        for device in sorted(self._meters[rack]):
            since = self._dead_since_s.get(device)
            if since is not None and plant.t_s - since > KNOWN_DEAD_S:
                self._say(f"{where} although {device} has been dead since {since:.1f} s")
        load_w = self._most_w()
        network = plant.hall.network
        flow = network.flow(plant.lost, plant.flat)
        over = np.where(flow.dead, -np.inf, flow.weights @ load_w - network.limit_w)
        if over.max() > 1.0:
            worst = network.elements[int(over.argmax())]
            self._say(f"{where}: {worst} is {over.max():.0f} W over if all draw their caps")
        # The plant for which it was proved: that of now, or while in flight one of just before.
        known = [s for s in self._states if s[0] > plant.t_s - IN_FLIGHT_S]
        known += [s for s in self._states if s not in known][-1:]
        lacks = []
        for _, lost, flat in known:
            weights, limits = network.contingencies(lost, flat)
            lacks.append(float((weights @ load_w - limits).max()) if len(limits) else 0.0)
        if min(lacks) > 1.0:
            self._say(f"{where}: a further loss would overload something by {min(lacks):.0f} W")

    def _trust(self, decision: Decision) -> None:
        """No raise is decided over a meter that has been dead for a while."""
        assert self._world is not None
        plant = self._world.plant.truth
        for command in decision.commands:
            node = plant.hall.facility.nodes.get(command.point.device)
            if node is None or not command.raises:
                continue
            for device in sorted(self._meters[node.rack]):
                since = self._dead_since_s.get(device)
                if since is not None and plant.t_s - since > DECIDED_S:
                    self._say(
                        f"{plant.t_s:.1f} s: decided to raise {command.point.device}"
                        f" although {device} has been dead since {since:.1f} s"
                    )

    def _most_w(self) -> FloatArray:
        """float64[L]: all boards at their limits, by the formula of the control laws."""
        assert self._world is not None
        plant = self._world.plant.truth
        hall, power = plant.hall, plant.hall.facility.power
        boards = np.bincount(hall.boards.node, plant.bank.limit_w, len(hall.nodes))
        at_wall = 1.0 + power.board_accuracy
        node_w = hall.node_overhead_w + at_wall * boards / power.psu_efficiency
        load_w = plant.load_w.copy()
        for row, (name, rack) in enumerate(power.racks.items()):
            mine = [i for i, n in enumerate(hall.facility.nodes.values()) if n.rack == name]
            if mine and not plant.flow.dark[row]:
                load_w[row] = rack.overhead + float(node_w[mine].sum())
        return load_w

    def _weigh(self, facts: Any) -> None:
        """What a cycle assumed, against what was true just before and just after it."""
        assert self._world is not None
        plant, self.cycles = self._world.plant.truth, self.cycles + 1
        hall = plant.hall
        limit_w = np.minimum(plant.bank.limit_w, self._limit_w)
        for i, name in enumerate(hall.nodes):
            true_w = float(limit_w[hall.boards.node == i].max())
            assumed_w = float(facts["allocation"]["nodes"][name]["cap_w"])
            if assumed_w < true_w - 1.0:
                self._say(f"{plant.t_s:.1f} s: {name} counts {assumed_w:.0f} W, has {true_w:.0f} W")
        rack_w = np.minimum(plant.rack_w, self._rack_w)
        for row, rack in enumerate(facts["headroom"]["racks"]):
            if rack["load_w"] < rack_w[row] - 1.0:
                self._say(
                    f"{plant.t_s:.1f} s: {rack['rack']} counts {rack['load_w']:.0f} W,"
                    f" draws {rack_w[row]:.0f} W"
                )

    def _say(self, words: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(words)


def meters_on_paths(facility: Facility) -> dict[str, frozenset[str]]:
    """Rack -> the meters without which no cap there may rise.

    An element answers for itself by its own meter, else by all feed meters below it.
    """
    power = facility.power
    loads = {**power.racks, **power.loads}
    own = {d.measures.element: n for n, d in facility.devices.items() if d.measures.element}
    above = {
        (load, feed): _above(facility, parent)
        for load, body in loads.items()
        for feed, parent in body.feeds.items()
    }
    of_feed = {
        (d.measures.rack, d.measures.feed): name
        for name, d in facility.devices.items()
        if d.measures.feed is not None
    }
    needed: dict[str, frozenset[str]] = {}
    for element in power.elements:
        below = {of_feed[f] for f, path in above.items() if element in path and f in of_feed}
        needed[element] = frozenset({own[element]} if element in own else below)
    return {
        rack: frozenset().union(
            *(needed[e] for f, path in above.items() if f[0] == rack for e in path)
        )
        for rack in power.racks
    }


def _above(facility: Facility, name: str) -> frozenset[str]:
    group = facility.power.groups.get(name)
    if group is not None:
        return frozenset().union(*(_above(facility, member) for member in group.members))
    element = facility.power.elements[name]
    parents = element.fed_by
    if element.transfer is not None:
        parents = (element.transfer.normal, element.transfer.alternate)
    return frozenset({name}).union(*(_above(facility, parent) for parent in parents))
