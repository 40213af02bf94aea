"""The hall in motion: electricity, boards, liquid and air, step by step.

A plant knows nothing of protocols. It takes limits and set-points, faults and surroundings, and
says what is true; instruments (`drivers.sim.plant.instruments`) show it.
"""

from __future__ import annotations

import numpy as np

from drivers.sim.plant.cooling import LoopPlant
from drivers.sim.plant.disturbance import NOTHING, Disturbance, Outside
from drivers.sim.plant.electrical import BoolArray, Flow, Network
from drivers.sim.plant.gpus import BoardConstants, GpuBank
from drivers.sim.plant.parameters import PlantData
from drivers.sim.plant.room import Room
from drivers.sim.plant.trips import TripClocks
from facility.config import Facility
from facility.points import FloatArray, IntArray


class Hall:
    """What two plants of one file and seed share: names, sizes, indexes, board constants."""

    def __init__(self, facility: Facility, data: PlantData, seed: int) -> None:
        self.facility = facility
        self.data = data
        self.seed = seed
        self.network = Network(facility.power)
        self.boards = BoardConstants.of(facility, data.gpu, np.random.default_rng([seed, 1]))
        self.nodes = tuple(facility.nodes)
        self.node_position = {name: i for i, name in enumerate(self.nodes)}
        self.racks = tuple(facility.power.racks)
        position = {rack: i for i, rack in enumerate(self.racks)}
        self.node_rack: IntArray = np.array(
            [position[n.rack] for n in facility.nodes.values()], dtype=np.int64
        )
        counts = [node.gpus for node in facility.nodes.values()]
        self.first_board: IntArray = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.node_overhead_w: FloatArray = np.array(
            [n.overhead for n in facility.nodes.values()], dtype=np.float64
        )
        equipped = np.bincount(self.node_rack, minlength=len(self.racks)) > 0
        self.rack_base_w: FloatArray = np.array(
            [
                rack.overhead if has else data.electrical.unequipped_share * rack.rating
                for rack, has in zip(facility.power.racks.values(), equipped, strict=True)
            ],
            dtype=np.float64,
        )
        self.other_base_w: FloatArray = np.array(
            [data.electrical.other_share * x.rating for x in facility.power.loads.values()],
            dtype=np.float64,
        )
        loops = facility.cooling.loops
        self.loop_names = tuple(loops)
        self.liquid_share: FloatArray = np.zeros((len(loops), len(self.racks)))
        for i, loop in enumerate(loops.values()):
            for rack, share in loop.racks.items():
                self.liquid_share[i, position[rack]] = share
        self.air_share: FloatArray = np.clip(1.0 - self.liquid_share.sum(axis=0), 0.0, 1.0)
        board_rack = self.node_rack[self.boards.node]
        liquid = self.liquid_share[:, board_rack]
        self.board_loop: IntArray = (
            np.where(liquid.max(axis=0) > 0.0, liquid.argmax(axis=0), -1)
            if len(loops)
            else np.full(len(board_rack), -1)
        ).astype(np.int64)
        self.board_rack = board_rack
        self.autonomy_s: FloatArray = np.array(
            [
                e.autonomy if e.kind == "ups" and e.autonomy is not None else np.nan
                for e in facility.power.elements.values()
            ],
            dtype=np.float64,
        )


class Plant:
    """One hall, integrated in small steps.

    Attributes:
        t_s: seconds since the start of the run (negative while settling).
        load_w: float64[L]; racks, then other loads.
        element_w: float64[E]; power through each element.
        flow: the electrical state that gave them.
        tripped: elements whose overload band was exhausted, in order.
        bank, loops, room: the other parts.
        energy_wh: float64[F]; counter of each (load, feed) column.
        tokens: float64[N]; generated since the start, by node.
    """

    def __init__(self, hall: Hall, limit_w: FloatArray, setpoint_c: float | None = None) -> None:
        self.hall = hall
        facility, data = hall.facility, hall.data
        self.bank = GpuBank(hall.boards, data.gpu, limit_w)
        self.clocks = TripClocks(facility.power, hall.network, data.electrical)
        self.loops = [
            LoopPlant(
                name,
                loop,
                facility.power,
                data.loop,
                loop.default_setpoint if setpoint_c is None else setpoint_c,
            )
            for name, loop in facility.cooling.loops.items()
        ]
        stated_w = np.array([rack.rating for rack in facility.power.racks.values()])
        self.room = Room(data.room, float(np.dot(hall.air_share, stated_w)))
        racks, loads = len(hall.racks), len(hall.network.loads)
        self.t_s = 0.0
        self.outside = Outside(20.0, 11.0)
        self.disturbance = NOTHING
        self.tripped: list[str] = []
        self._lost: frozenset[str] = frozenset()
        self._flat: frozenset[str] = frozenset()
        self.battery: FloatArray = np.ones(len(hall.network.elements))
        self.flow: Flow = hall.network.flow(frozenset(), frozenset())
        self.load_w: FloatArray = np.zeros(loads)
        self.element_w: FloatArray = np.zeros(len(hall.network.elements))
        self.node_w: FloatArray = np.zeros(len(hall.nodes))
        self.node_tokens_per_s: FloatArray = np.zeros(len(hall.nodes))
        self.tokens: FloatArray = np.zeros(len(hall.nodes))
        self.energy_wh: FloatArray = np.zeros(len(hall.network.columns))
        self.gpu_injected_j = 0.0
        self.gpu_removed_j = 0.0
        self._down_s: FloatArray = np.zeros(racks)
        self._column_load: IntArray = np.array(
            [row for row, _, _ in hall.network.columns], dtype=np.int64
        )
        self._powered: BoolArray = np.ones(len(hall.boards.node), dtype=np.bool_)
        self._cdu_load = {
            cdu.name: hall.network.loads.index(cdu.load)
            for loop in self.loops
            for cdu in loop.cdus
            if cdu.load in hall.network.loads
        }
        self._recording = False

    @property
    def lost(self) -> frozenset[str]:
        """Elements lost: by fault or tripped."""
        return self._lost

    @property
    def flat(self) -> frozenset[str]:
        """UPSs whose batteries are exhausted."""
        return self._flat

    @property
    def rack_w(self) -> FloatArray:
        """float64[R]."""
        return self.load_w[: len(self.hall.racks)]

    @property
    def cooling_w(self) -> float:
        """Electricity of pumps, fans, chillers and room units, W."""
        return sum(loop.cooling_w for loop in self.loops) + self.room.power_w

    @property
    def rack_up(self) -> BoolArray:
        """bool[R]; powered and restarted."""
        return np.asarray(self._down_s <= 0.0)

    def disturb(self, disturbance: Disturbance) -> None:
        """Put faults into force (all of them; what is not named is whole again)."""
        if disturbance == self.disturbance:
            return
        self.disturbance = disturbance
        self._lost = disturbance.elements | frozenset(self.tripped)
        for loop in self.loops:
            for cdu in loop.cdus:
                cdu.stuck = cdu.name in disturbance.stuck

    def step(self, dt_s: float, outside: Outside) -> None:
        """Move on by dt with the surroundings given."""
        hall, bank = self.hall, self.bank
        self.outside = outside
        self.flow = flow = hall.network.flow(self._lost, self._flat)
        self._power_racks(dt_s, flow.dark)
        heat = bank.step(dt_s, self._inlets(), self._powered)
        self._draw(flow)
        self.element_w = flow.weights @ self.load_w
        if self._recording:
            for i in self.clocks.step(dt_s, self.element_w, self.room.air_c):
                self._trip(hall.network.elements[i])
        if flow.unfed.any() or self._flat or (self.battery < 1.0).any():
            self._discharge(dt_s, flow)
        removed = np.bincount(hall.board_rack, heat, len(hall.racks))
        drawn = np.bincount(hall.board_rack, bank.power_w, len(hall.racks))
        rack_heat = self.rack_w - drawn + removed
        self._cool(dt_s, rack_heat)
        self.gpu_injected_j += dt_s * float(drawn.sum())
        self.gpu_removed_j += dt_s * float(removed.sum())
        per_node = np.bincount(hall.boards.node, bank.tokens_per_s, len(hall.nodes))
        self.node_tokens_per_s = np.asarray(per_node, dtype=np.float64)
        if self._recording:
            self.tokens += per_node * dt_s
            self.energy_wh += flow.shares * self.load_w[self._column_load] * (dt_s / 3600.0)
        self.t_s += dt_s

    def _power_racks(self, dt_s: float, dark: BoolArray) -> None:
        down = dark[: len(self.hall.racks)]
        if not down.any() and not self._down_s.any():
            return
        restart = self.hall.data.electrical.restart_s
        before = self._down_s > 0.0
        self._down_s = np.where(down, restart, np.maximum(self._down_s - dt_s, 0.0))
        back = before & (self._down_s <= 0.0)
        self._powered = (self._down_s <= 0.0)[self.hall.board_rack]
        if back.any():
            self.bank.off &= ~back[self.hall.board_rack]

    def _inlets(self) -> FloatArray:
        """float64[G]: coolant or air temperature at each board; also sets the flow past it."""
        temperatures = np.array([*(loop.supply_c for loop in self.loops), self.room.air_c])
        ratios = np.array([*(loop.flow_ratio for loop in self.loops), 1.0])
        self.bank.flow(ratios[self.hall.board_loop])
        return np.asarray(temperatures[self.hall.board_loop])

    def _draw(self, flow: Flow) -> None:
        hall = self.hall
        racks = len(hall.racks)
        boards = np.bincount(hall.boards.node, self.bank.power_w, len(hall.nodes))
        node_w = boards / hall.facility.power.psu_efficiency + hall.node_overhead_w
        up = self.rack_up
        node_w = np.where(up[hall.node_rack], node_w, 0.0) if not up.all() else node_w
        self.node_w = node_w
        load = np.concatenate([hall.rack_base_w, hall.other_base_w])
        load[:racks] += np.bincount(hall.node_rack, node_w, racks)
        for loop in self.loops:
            for cdu in loop.cdus:
                if cdu.name in self._cdu_load:
                    load[self._cdu_load[cdu.name]] = cdu.power_w
        self.load_w = np.where(flow.dark, 0.0, load)

    def _trip(self, name: str) -> None:
        self.tripped.append(name)
        self._lost = self.disturbance.elements | frozenset(self.tripped)

    def _discharge(self, dt_s: float, flow: Flow) -> None:
        """Batteries: empty in the stated autonomy at rated load, recharge slowly."""
        hall = self.hall
        rating = hall.network.rating_w
        share = np.where(np.isfinite(rating), self.element_w / rating, 1.0)
        rate = np.where(flow.unfed, -share, hall.data.electrical.battery_recharge)
        has = np.isfinite(hall.autonomy_s)
        change = dt_s * rate / np.where(has, hall.autonomy_s, 1.0)
        self.battery = np.where(has, np.clip(self.battery + change, 0.0, 1.0), 1.0)
        self._flat = frozenset(
            name
            for i, name in enumerate(hall.network.elements)
            if has[i] and (self.battery[i] <= 0.0 or (name in self._flat and self.battery[i] < 0.1))
        )

    def _cool(self, dt_s: float, rack_heat_w: FloatArray) -> None:
        hall, fault = self.hall, self.disturbance
        liquid = hall.liquid_share @ rack_heat_w
        for i, loop in enumerate(self.loops):
            running: list[tuple[bool, bool]] = []
            for cdu in loop.cdus:
                row = self._cdu_load.get(cdu.name)
                fed = row is None or not self.flow.dark[row]
                cdu.alive = fed and cdu.name not in fault.cdus
                running.append(
                    (
                        cdu.alive and (cdu.name, 1) not in fault.pumps,
                        cdu.alive and (cdu.name, 2) not in fault.pumps,
                    )
                )
            leaking = any(rack in loop.config.racks for rack in fault.leaks)
            loop.step(dt_s, float(liquid[i]), self.outside.ambient_c, running, leaking)
        controls_w = sum(
            hall.data.loop.controls_w for loop in self.loops for c in loop.cdus if c.alive
        )
        air = float(np.dot(hall.air_share, rack_heat_w)) + controls_w
        self.room.step(dt_s, air, self.outside.dew_rise_k)

    def start(self) -> None:
        """The run begins: counters and clocks from zero."""
        self.t_s = 0.0
        self._recording = True
        self.tokens[:] = 0.0
        self.energy_wh[:] = 0.0
        self.tripped.clear()
        self.clocks.used[:] = 0.0
        self._lost = frozenset()
        self.bank.clear()

    @property
    def stored_j(self) -> float:
        """Heat stored in boards, coolant and air above 0 degC, J."""
        loops = sum(loop.stored_j for loop in self.loops)
        return self.bank.stored_j + loops + self.room.stored_j

    def set_limit(self, node: str, board: int, watts: float) -> None:
        """Set one board's power limit.

        Raises:
            KeyError: no such node.
            IndexError: no such board.
            ValueError: outside the board's legal range.
        """
        i = self.board_index(node, board)
        boards = self.hall.boards
        if not boards.least_w[i] - 1e-6 <= watts <= boards.most_w[i] + 1e-6:
            raise ValueError(f"{watts} W is outside {boards.least_w[i]}..{boards.most_w[i]} W")
        self.bank.limit_w[i] = watts

    def board_index(self, node: str, board: int) -> int:
        """Dense index of a board.

        Raises:
            KeyError: no such node.
            IndexError: no such board.
        """
        n = self.hall.node_position[node]
        first, end = int(self.hall.first_board[n]), int(self.hall.first_board[n + 1])
        if not 0 <= board < end - first:
            raise IndexError(f"{node} has {end - first} boards")
        return first + board
