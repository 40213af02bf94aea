"""What the instruments of the hall show: readings by device, part and kind, and their faults.

An instrument without a fault is ideal; scale, resolution and sentinels are the profile's matter.
`None` means that the instrument has no value now, never 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from drivers.sim.plant.plant import Plant
from drivers.sim.plant.power_meters import PowerMeters
from drivers.sim.plant.psychrometrics import humidity_at
from drivers.sim.scenarios import Fault
from facility.config import DeviceConfig, Facility

Reader = Callable[[str, str], float | None]

#: Clock-event bits of NVML (nvml.h): power cap, hardware slowdown, hardware thermal slowdown.
BIT_IDLE = 0x1
BIT_POWER_CAP = 0x4
BIT_HW_SLOWDOWN = 0x8
BIT_HW_THERMAL = 0x40


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What NVML says of one board.

    Attributes:
        margin_k: degrees to hardware slowdown.
        limit_w, enforced_w: limit asked for, limit in force.
        event_bits: NVML clock-event bits.
    """

    power_w: float
    temperature_c: float
    margin_k: float
    limit_w: float
    enforced_w: float
    clock_hz: float
    event_bits: int
    min_w: float
    max_w: float
    default_w: float
    uuid: str


class ServedPlant:
    """A plant as its instruments, set-points and boards show it to the world.

    Attributes:
        truth: the plant behind.
        twin: the uncontrolled plant, shown as the device `twin`.
    """

    def __init__(self, plant: Plant, twin: Plant | None = None) -> None:
        self.truth = plant
        self.twin = twin
        facility = plant.hall.facility
        self._facility = facility
        self._meters = PowerMeters(plant)
        self._readers: dict[str, Reader] = {
            name: self._reader(name, device, facility) for name, device in facility.devices.items()
        }
        for i, loop in enumerate(plant.loops):
            for j, cdu in enumerate(loop.cdus):
                self._readers[cdu.name] = self._cdu_reader(i, j)
        self._readers["twin"] = self._twin
        self._forgets: dict[str, tuple[float, float]] = {}
        self._faults: tuple[Fault, ...] = ()
        self._frozen: dict[tuple[str, str, str], float | None] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the GPU nodes, file order."""
        return self.truth.hall.nodes

    def break_instruments(self, faults: tuple[Fault, ...]) -> None:
        """Put sensor and device faults into force; what is not named is whole again."""
        if faults != self._faults:
            self._faults = faults
            self._frozen.clear()

    def value(self, device: str, part: str, kind: str) -> float | None:
        """A reading in the kind's canonical unit; None when there is none."""
        reader = self._readers.get(device)
        if reader is None:
            return None
        value = reader(part, kind)
        for fault in self._faults:
            if device in fault.targets and f"{part}:{kind}" in fault.entry.points:
                value = self._spoil(fault, (device, part, kind), value)
        return value

    def _spoil(
        self, fault: Fault, point: tuple[str, str, str], value: float | None
    ) -> float | None:
        match fault.entry.kind:
            case "sensor_frozen":
                return self._frozen.setdefault(point, value)
            case "sensor_nan":
                return None
            case "sensor_offset" if value is not None:
                return value + fault.entry.value
            case "sensor_unit_swapped" if value is not None:
                return value * 1.8 + 32.0
        return value

    def write(
        self,
        device: str,
        part: str,
        kind: str,
        value: float,
        *,
        falls_back: tuple[float, float] | None = None,
    ) -> None:
        """Move a set-point; `falls_back` is to what, and after how many seconds unwritten.

        Raises:
            KeyError: the device has no such set-point.
            ValueError: not finite.
        """
        if not math.isfinite(value):
            raise ValueError(f"{value} is no set-point")
        if (part, kind) == ("loop.secondary", "supply_setpoint"):
            for loop in self.truth.loops:
                for cdu in loop.cdus:
                    if cdu.name == device:
                        cdu.setpoint_c = value
                        self._forgets.pop(device, None)
                        if falls_back is not None:
                            later_c, after_s = falls_back
                            self._forgets[device] = (self.truth.t_s + after_s, later_c)
                        return
        raise KeyError(f"{device} has no set-point {part}:{kind}")

    def forget(self) -> None:
        """Let devices whose set-point nobody has written for too long fall back by themselves."""
        for device, (at_s, later_c) in list(self._forgets.items()):
            if self.truth.t_s >= at_s:
                self.write(device, "loop.secondary", "supply_setpoint", later_c)

    def device_health(self, device: str) -> str:
        """How the device's own electronics answer: ok, dead, slow or garbage."""
        for fault in self._faults:
            if device in fault.targets:
                match fault.entry.kind:
                    case "device_dead":
                        return "dead"
                    case "device_slow":
                        return "slow"
                    case "device_garbage":
                        return "garbage"
                    case "device_flapping" if int(self.truth.t_s / 5.0) % 2 == 0:
                        return "dead"
        return "ok" if self._energised(device) else "dead"

    def _energised(self, device: str) -> bool:
        """Whether the device has power: a rack PDU lives on its own feed, a CDU on its load."""
        if self._meters.knows(device):
            return self._meters.energised(device)
        return all(
            cdu.alive or cdu.name in self.truth.disturbance.cdus
            for loop in self.truth.loops
            for cdu in loop.cdus
            if cdu.name == device
        )

    def _reader(self, name: str, device: DeviceConfig, facility: Facility) -> Reader:
        about = device.measures
        if self._meters.knows(name):
            return self._meters.reader(name)
        if about.rack is not None:
            peers = [
                other
                for other, entry in facility.devices.items()
                if entry.measures.rack == about.rack and entry.measures.feed is None
            ]
            return self._inlet_reader(about.rack, peers.index(name))
        if about.node is not None:
            engines = [
                other
                for other in facility.devices.values()
                if other.measures.node == about.node and other.profile.startswith("engine/")
            ]
            return self._node_reader(about.node, max(len(engines), 1))
        if about.loop is not None:
            for i, loop in enumerate(self.truth.loops):
                if loop.name == about.loop and loop.cdus:
                    return self._cdu_reader(i, 0)
        return self._outdoor

    def _inlet_reader(self, rack: str, place: int) -> Reader:
        """Inlet sensors of a rack: each place is warmer than the one before; two get wet."""
        share = place * 0.7

        def read(part: str, kind: str) -> float | None:
            room = self.truth.room
            air_c = room.air_c + share
            if part == "leak" or kind == "leak":
                return float(rack in self.truth.disturbance.leaks and place < 2)
            match kind:
                case "temperature":
                    return air_c
                case "humidity":
                    return room.humidity(air_c)
                case "dew_point":
                    return room.dew_c
            return None

        return read

    def _node_reader(self, node: str, engines: int) -> Reader:
        """What one of the engines of a node shows, an even share; or an exporter, its boards."""

        def read(part: str, kind: str) -> float | None:
            if part == "total":
                told = self.tokens(node)
                kinds = ("tokens_prompt", "tokens_generated", "requests_running")
                whole = dict(zip((*kinds, "requests_waiting"), told, strict=True)).get(kind)
                return None if whole is None else whole / engines
            if not part.startswith("gpu."):
                return None
            try:
                board = self.gpu_reading(node, int(part.removeprefix("gpu.")))
            except (IndexError, ValueError):
                return None
            values = {
                "active_power": board.power_w,
                "temperature": board.temperature_c,
                "margin": board.margin_k,
                "power_cap": board.limit_w,
                "power_cap_enforced": board.enforced_w,
                "clock": board.clock_hz,
            }
            return values.get(kind)

        return read

    def _outdoor(self, part: str, kind: str) -> float | None:
        from_outside = self.truth.outside
        match kind:
            case "temperature":
                return from_outside.ambient_c
            case "humidity":
                return humidity_at(from_outside.ambient_c, from_outside.dew_point_c)
            case "dew_point":
                return from_outside.dew_point_c
        return None

    def _cdu_reader(self, loop_index: int, cdu_index: int) -> Reader:
        def read(part: str, kind: str) -> float | None:
            loop = self.truth.loops[loop_index]
            cdu = loop.cdus[cdu_index]
            room = self.truth.room
            if part.startswith("pump."):
                pump = int(part.removeprefix("pump.")) - 1
                if not 0 <= pump < len(cdu.spin):
                    return None
                failed = (cdu.name, pump + 1) in self.truth.disturbance.pumps
                values = {
                    "speed": cdu.spin[pump],
                    "rotation": cdu.spin[pump] * loop.data.pump_rpm,
                    "state": 2.0 if failed else float(cdu.spin[pump] > 0.05),
                }
            elif part == "loop.secondary":
                values = {
                    "supply_temperature": loop.supply_c,
                    "return_temperature": loop.return_c,
                    "flow": cdu.flow_lpm,
                    "pressure_difference": loop.data.head_kpa * loop.flow_ratio**2,
                    "pressure": 150.0 + loop.data.head_kpa * loop.flow_ratio**2,
                    "supply_setpoint": cdu.setpoint_c,
                }
            elif part == "loop.primary":
                values = {
                    "supply_temperature": loop.primary_c,
                    "return_temperature": cdu.primary_return_c,
                    "flow": cdu.primary_lpm,
                    "valve": cdu.valve,
                }
            elif part == "inlet":
                values = {
                    "temperature": room.air_c,
                    "humidity": room.humidity(room.air_c),
                    "dew_point": room.dew_c,
                }
            else:
                values = {
                    "active_power": cdu.power_w,
                    "heat": cdu.heat_w,
                    "level": loop.level,
                    "leak": 0.0,
                    "state": float(any(s > 0.05 for s in cdu.spin)),
                }
            return values.get(kind)

        return read

    def _twin(self, part: str, kind: str) -> float | None:
        twin = self.twin
        if twin is None:
            return None
        racks = len(twin.hall.racks)
        of_racks = [i for i, (row, _, _) in enumerate(twin.hall.network.columns) if row < racks]
        match kind:
            case "tokens_generated":
                return float(twin.tokens.sum())
            case "tokens_prompt":
                return float(twin.tokens.sum()) * twin.hall.data.gpu.prompt_per_generated
            case "energy":
                return float(twin.energy_wh[of_racks].sum())
            case "active_power":
                return float(twin.rack_w.sum())
            case "heat":
                return sum(loop.heat_w for loop in twin.loops)
            case "state":
                return self._twin_state(twin)
        return None

    @staticmethod
    def _twin_state(twin: Plant) -> float:
        """Codes of the profile sim/twin: 0 running, 1 overloaded, 2 tripped, 3 throttling."""
        if twin.tripped:
            return 2.0
        if twin.bank.throttled.any() or twin.bank.off.any():
            return 3.0
        over = twin.element_w > twin.hall.network.limit_w
        return float((over & ~twin.flow.dead).any())

    def gpu_reading(self, node: str, board: int) -> GpuReading:
        """One board as NVML would report it.

        Raises:
            KeyError: no such node.
            IndexError: no such board.
        """
        i = self.truth.board_index(node, board)
        bank, boards, data = self.truth.bank, self.truth.hall.boards, self.truth.hall.data.gpu
        power, limit = float(bank.power_w[i]), float(bank.limit_w[i])
        bits = 0
        if bank.throttled[i]:
            bits |= BIT_HW_SLOWDOWN | BIT_HW_THERMAL
        elif bank.capped[i]:
            bits |= BIT_POWER_CAP
        if power <= 0.0:
            bits = BIT_IDLE
        dynamic = max(power - float(boards.c0_w[i]), 0.0) / float(boards.most_w[i])
        digest = hashlib.sha256(f"{self.truth.hall.seed}/{node}/{board}".encode()).hexdigest()
        return GpuReading(
            power_w=power,
            temperature_c=float(bank.temperature_c[i]),
            margin_k=data.slowdown_c - float(bank.temperature_c[i]),
            limit_w=limit,
            enforced_w=limit,
            clock_hz=data.top_clock_hz * min(dynamic * 1.2, 1.0) ** (1.0 / 3.0),
            event_bits=bits,
            min_w=float(boards.least_w[i]),
            max_w=float(boards.most_w[i]),
            default_w=float(boards.most_w[i]),
            uuid="GPU-"
            + "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])),
        )

    def set_gpu_limit(self, node: str, board: int, watts: float) -> None:
        """Set one board's limit; raises as `Plant.set_limit` does."""
        self.truth.set_limit(node, board, watts)

    def tokens(self, node: str) -> tuple[float, float, float, float]:
        """Of a node: prompt and generated tokens (counters), requests running and waiting.

        Raises:
            KeyError: no such node.
        """
        plant = self.truth
        n = plant.hall.node_position[node]
        boards = slice(int(plant.hall.first_board[n]), int(plant.hall.first_board[n + 1]))
        generated = float(plant.tokens[n])
        offered = float(plant.bank.offered_tok_s[boards].sum())
        served = float(plant.bank.tokens_per_s[boards].sum())
        missed = 1.0 - served / offered if offered > 0.0 else 0.0
        running = 0.0 if served <= 0.0 else 64.0 * (boards.stop - boards.start)
        waiting = float(math.floor(400.0 * max(missed, 0.0)))
        return generated * plant.hall.data.gpu.prompt_per_generated, generated, running, waiting
