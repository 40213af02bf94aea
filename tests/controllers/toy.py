"""A toy plant in memory: values by point name, made into scans; physics just enough to control."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from facility.commands import Ack, Command, Outcome
from facility.config import Facility
from facility.loading import load_text
from facility.points import Flaw, Grade, Layout, PointId, PointSpec, PointTable, Scan, quality
from facility.site import SiteModel
from facility.snapshot import LiveImage, Snapshot

EPOCH_MS = 1_790_000_000_000

GPU_KINDS = ("active_power", "temperature", "margin", "power_cap", "power_cap_enforced", "state")
NODE_KINDS = ("active_power", "power_cap", "tokens_generated", "tokens_prompt", "state")
CDU_POINTS = (
    ("loop.secondary", "supply_temperature"),
    ("loop.secondary", "return_temperature"),
    ("loop.secondary", "flow"),
    ("loop.secondary", "pressure_difference"),
    ("loop.secondary", "supply_setpoint"),
    ("loop.primary", "supply_temperature"),
    ("pump.1", "state"),
    ("pump.1", "rotation"),
    ("pump.2", "state"),
    ("pump.2", "rotation"),
    ("total", "leak"),
    ("total", "level"),
)


def small_hall(**changes: str) -> str:
    """Two racks of two nodes, two sides, one loop with two CDUs; `changes` replace texts."""
    text = """
facility: 1
site: {name: Toy, timezone: UTC, ramp: 2 MW/min, design_dew_point: 16 degC}
power:
  resecure: RESECURE
  elements:
    utility-1: {kind: source}
    utility-2: {kind: source}
    ups-a1: {kind: ups, fed_by: [utility-1], rating: 30 kW, autonomy: 300 s}
    ups-b1: {kind: ups, fed_by: [utility-2], rating: 30 kW, autonomy: 300 s}
    row-a: {kind: busway, fed_by: [ups-a1], rating: ROW}
    row-b: {kind: busway, fed_by: [ups-b1], rating: ROW}
  racks:
    r01: {feeds: {a: row-a, b: row-b}, rating: 14 kW, overhead: 500 W}
    r02: {feeds: {a: row-a, b: row-b}, rating: 14 kW, overhead: 500 W}
  loads:
    cdu-1: {feeds: {a: row-a, b: row-b}, rating: 500 W}
    cdu-2: {feeds: {a: row-a, b: row-b}, rating: 500 W}
nodes:
  r[01-02]-n[1-2]: {rack: "r{1}", gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W,
    floor: 250 W, fallback: 250 W, overhead: 900 W,
    curve: {tm: 1000 tok/s, c0: 120 W, k: 300 W, n: 4}}
cooling:
  loops:
    loop-1:
      cdus: {cdu-1: cdu-1, cdu-2: cdu-2}
      racks: {r01: 90 %, r02: 90 %}
      sensors: [air-r01, air-r02]
      design_flow: 60 L/min
      heat_capacity: 60 kW
devices:
  pdu-r[01-02]-[a,b]:
    {profile: pdu/apc-rpdu2, address: "snmp://x:1", measures: {rack: "r{1}", feed: "{2}"}}
  ups-[a,b]1: {profile: ups/rfc1628, address: "snmp://x:1", measures: {element: "ups-{1}1"}}
  cdu-[1-2]: {profile: cdu/wattkeeper-sim, address: "modbus://x:1/1", measures: {loop: loop-1}}
  air-r[01-02]: {profile: sensor/json-mqtt, address: "mqtt:a/{1}", measures: {rack: "r{1}"}}
  wet-r[01-02]: {profile: sensor/json-mqtt, address: "mqtt:b/{1}", measures: {rack: "r{1}"}}
  weather: {profile: sensor/json-mqtt, address: "mqtt:w", measures: {nothing: true}}
control:
  enabled: true
  mode: auto
  allow:
    - {points: "*:total:power_cap", by: test}
    - {points: "*:loop.secondary:supply_setpoint", by: test}
controllers:
  allocation: {policy: throughput, period: 5 s}
  cooling: {ambient: "weather:outdoor:temperature"}
"""
    defaults = {"RESECURE": "15 min", "ROW": "24 kW"}
    for word, value in {**defaults, **changes}.items():
        text = text.replace(word, value)
    return text


#: how long a coolant distribution unit of the toy keeps a set-point that nobody writes
SETPOINT_LIFE_S: float | None = None


def layouts_of(facility: Facility) -> list[Layout]:
    """One layout per device, with the points that controllers use."""
    out: list[Layout] = []

    def add(device: str, points: Iterable[tuple[str, str]], writable: Sequence[str] = ()) -> None:
        specs = []
        for part, kind in points:
            id_ = PointId(device, part, kind)
            spec = PointSpec(id_, -1e9, 1e9, 5.0, kind in writable)
            low, high = spec.kind.low, spec.kind.high
            life_s = SETPOINT_LIFE_S if kind == "supply_setpoint" else None
            specs.append(PointSpec(id_, low, high, 5.0, kind in writable, watchdog_s=life_s))
        out.append(Layout(device, "fast", tuple(specs)))

    loops = facility.cooling.loops.values()
    for name, device in facility.devices.items():
        about = device.measures
        if any(name in loop.cdus for loop in loops):
            add(name, CDU_POINTS, ("supply_setpoint",))
        elif (about.rack or about.load) is not None and about.feed is not None:
            add(name, [("total", "active_power")])
        elif about.element is not None:
            add(name, [("total", "active_power"), ("total", "state")])
        elif about.node is not None:
            counts = device.profile != "engine/triton-trtllm"
            add(name, [("total", "tokens_generated" if counts else "requests_running")])
        elif about.rack is not None:
            add(name, [("inlet", "temperature"), ("inlet", "humidity"), ("leak", "leak")])
        else:
            add(name, [("outdoor", "temperature"), ("outdoor", "humidity")])
    for name, node in facility.nodes.items():
        points = [(f"gpu.{g}", kind) for g in range(node.gpus) for kind in GPU_KINDS]
        add(name, [*points, *(("total", k) for k in NODE_KINDS)], ("power_cap",))
    return out


@lru_cache(maxsize=8)
def site_of(text: str) -> SiteModel:
    facility = load_text(text).facility
    return SiteModel.of(facility, PointTable.of(layouts_of(facility)))


@dataclass
class Toy:
    """The plant: caps, set-point, and what the instruments say.

    Attributes:
        share: power that a GPU draws, as part of its cap.
        dead_feeds: feed names (side "a" or "b") without supply.
        broken: devices that answer nothing.
        changes: point -> value that replaces the physics (None: BAD).
        doubted: points whose values are SUSPECT.
        flow_share: flow as part of the design's.
    """

    site: SiteModel
    cap_w: float = 300.0
    setpoint_c: float = 30.0
    share: float = 0.9
    humidity: float = 0.4
    ambient_c: float = 20.0
    margin_at_30_w0: float = 60.0
    resistance: float = 0.036
    flow_share: float = 1.0
    now_s: float = 1000.0
    dead_feeds: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    changes: dict[str, float | None] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    flaws: dict[str, Flaw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.image = LiveImage(self.site.table)
        self.caps = dict.fromkeys(self.site.nodes, self.cap_w)
        self.setpoints = {c: self.setpoint_c for loop in self.site.loops for c in loop.cdus}
        self.supply_c = self.setpoint_c
        self.tokens = dict.fromkeys(self.site.nodes, 0.0)
        self.written: list[Command] = []
        self.refuse: set[str] = set()
        self.hook: Callable[[Scan], None] | None = None

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + round(self.now_s * 1000.0)

    def rack_w(self, rack: str) -> float:
        config = self.site.facility.power.racks[rack]
        total = config.overhead
        for name, node in self.site.facility.nodes.items():
            if node.rack == rack:
                total += node.overhead + node.gpus * self.share * self.caps[name]
        return total

    def feeds_alive(self, load: str) -> list[str]:
        power = self.site.facility.power
        feeds = (power.racks.get(load) or power.loads[load]).feeds
        return [f for f in feeds if f not in self.dead_feeds]

    def value(self, point: PointId) -> float | None:
        text = str(point)
        if text in self.changes:
            return self.changes[text]
        device, part, kind = point
        site = self.site
        if device in self.caps:
            return self._node(device, part, kind)
        about = site.facility.devices[device].measures
        if device in self.setpoints:
            return self._cdu(device, part, kind)
        if about.rack is not None and about.feed is not None:
            alive = self.feeds_alive(about.rack)
            if about.feed in self.dead_feeds:
                return 0.0
            return self.rack_w(about.rack) / len(alive)
        if about.element is not None:
            if kind == "state":
                return 3.0
            side = about.element[4]
            return sum(
                self.rack_w(r) / len(self.feeds_alive(r))
                for r in site.racks
                if side not in self.dead_feeds
            ) / self._members(about.element)
        if kind == "humidity":
            return self.humidity
        if part == "outdoor":
            return self.ambient_c
        return 0.0 if kind == "leak" else 24.0

    def _members(self, element: str) -> int:
        for group in self.site.facility.power.groups.values():
            if element in group.members:
                return len(group.members)
        return 1

    def _node(self, device: str, part: str, kind: str) -> float:
        cap = self.caps[device]
        if part == "total":
            config = self.site.facility.nodes[device]
            return {
                "active_power": config.overhead + config.gpus * self.share * cap,
                "power_cap": cap,
                "tokens_generated": self.tokens[device],
                "tokens_prompt": 0.0,
                "state": 1.0,
            }[kind]
        watts = self.share * cap
        worse = 0.55 + 0.45 * max(self.flow_share, 0.02) ** -0.6
        warm = self.resistance * worse * watts
        margin = self.margin_at_30_w0 - (self.supply_c - 30.0) - warm
        return {
            "active_power": watts,
            "temperature": self.supply_c + warm,
            "margin": margin,
            "power_cap": cap,
            "power_cap_enforced": cap,
            "state": 0.0,
        }[kind]

    def _cdu(self, device: str, part: str, kind: str) -> float:
        loop = next(x for x in self.site.loops if device in x.cdus)
        flow = self.flow_share * loop.config.design_flow / len(loop.cdus)
        return {
            "supply_temperature": self.supply_c if part == "loop.secondary" else 12.0,
            "return_temperature": self.supply_c + 8.0,
            "flow": flow,
            "pressure_difference": 100.0,
            "supply_setpoint": self.setpoints[device],
            "state": 1.0,
            "rotation": 2000.0,
            "leak": 0.0,
            "level": 0.8,
        }[kind]

    def scan(self) -> None:
        for layout in self.site.table.layouts:
            if layout.device in self.broken:
                scan = Scan.missing(layout, Flaw.TIMEOUT, self.now_ms, self.now_s)
            else:
                values = np.full(len(layout), np.nan)
                grades = np.zeros(len(layout), dtype=np.uint8)
                for i, spec in enumerate(layout.points):
                    value = self.value(spec.id)
                    flaw = self.flaws.get(str(spec.id), Flaw.TIMEOUT)
                    if value is None or math.isnan(value):
                        grades[i] = quality(Grade.BAD, flaw)
                    else:
                        values[i] = value
                        if str(spec.id) in self.doubted:
                            grades[i] = quality(Grade.SUSPECT, Flaw.DEVICE_FAULT)
                scan = Scan(layout, values, grades, self.now_ms, self.now_ms, self.now_s)
            if self.hook is not None:
                self.hook(scan)
            self.image.update(scan)

    def snapshot(self) -> Snapshot:
        self.scan()
        return self.image.freeze(self.now_ms, self.now_s)

    def advance(self, seconds: float = 1.0) -> None:
        self.now_s += seconds
        wanted = max(self.setpoints.values(), default=self.supply_c)
        self.supply_c += (wanted - self.supply_c) * min(seconds / 5.0, 1.0)
        for name, node in self.site.facility.nodes.items():
            curve = node.curve
            assert curve is not None
            x = max(self.caps[name] - curve.c0, 0.0) / curve.k
            rate = curve.tm * x / (1.0 + x**curve.n) ** (1.0 / curve.n)
            self.tokens[name] += node.gpus * rate * seconds

    def apply(self, commands: Sequence[Command]) -> list[Ack]:
        acks = []
        for command in commands:
            device = command.point.device
            self.written.append(command)
            if device in self.broken:
                acks.append(Ack(command, Outcome.UNANSWERED, None, "timeout", self.now_ms))
                continue
            if device in self.refuse:
                acks.append(Ack(command, Outcome.REJECTED, None, "not now", self.now_ms))
                continue
            target = self.caps if device in self.caps else self.setpoints
            target[device] = command.value
            acks.append(Ack(command, Outcome.APPLIED, command.value, "", self.now_ms))
        return acks
