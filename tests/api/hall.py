"""A hall in memory for the API's tests: the demo file, a real store, a real N+1 study."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from api.hall import (
    DeviceStatus,
    Feed,
    Granted,
    Refused,
    Released,
    ServiceStatus,
    SinkTest,
    Unknown,
)
from api.picture import scopes
from api.service.cords import ServiceCords
from api.service.drilling import ServiceDrills
from api.service.upkeep import ServiceUpkeep
from api.service.workers import InlineWorkers
from controllers.cycle.state import CycleInput, Memory
from controllers.headroom import sentence, study
from controllers.reconcile import ReconcileMemory, reconcile, wiring_facts
from controllers.single_line import compose
from facility.commands import (
    AlarmEvent,
    Bounds,
    Command,
    Decision,
    Mode,
    Override,
    Setpoint,
    Severity,
)
from facility.config import Facility
from facility.drills import Shed, Shedding
from facility.kinds import KINDS
from facility.loading import load
from facility.maintenance import Maintenance
from facility.points import BAD_TIMEOUT, Layout, PointId, PointSpec, PointTable, Scan
from facility.site import SiteModel
from facility.snapshot import LiveImage, Snapshot
from facility.store import Store, open_store
from facility.topology import Topology
from tests.conftest import ROOT

START_MS = 1_796_050_800_000  # 2026-11-30T15:00:00Z
DEMO = ROOT / "facility" / "demo.yaml"


class SetClock:
    """A clock that tests turn by hand."""

    def __init__(self) -> None:
        self.ms = START_MS

    def utc_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1e3

    def turn(self, seconds: float) -> None:
        self.ms += round(seconds * 1e3)


def _layout(device: str, names: Sequence[str], writable: Sequence[str] = ()) -> Layout:
    points = []
    for name in names:
        part, kind = name.split("/")
        known = KINDS[kind]
        spec = PointSpec(PointId(device, part, kind), known.low, known.high, 10.0, name in writable)
        points.append(spec)
    return Layout(device, "fast", tuple(points))


def layouts(facility: Facility) -> list[Layout]:
    """One layout per device and node, with the points that the API and the page look at."""
    found = []
    for device, config in facility.devices.items():
        if config.profile.startswith("cdu/"):
            writable = ["loop.secondary/supply_setpoint"]
            names = ["loop.secondary/supply_temperature", *writable]
            found.append(_layout(device, names, writable))
        elif config.profile.startswith("sensor/"):
            found.append(_layout(device, ["inlet/temperature", "inlet/humidity"]))
        else:
            found.append(_layout(device, ["total/active_power", "total/energy"]))
    for node in facility.nodes:
        names = ["total/power_cap", "total/tokens_generated", "gpu.0/active_power"]
        found.append(_layout(node, names, ["total/power_cap"]))
    return found


NUMBERS = {
    "active_power": 11_800.0,
    "energy": 4.2e6,
    "temperature": 24.6,
    "humidity": 0.41,
    "supply_temperature": 33.4,
    "supply_setpoint": 33.5,
    "power_cap": 512.0,
    "tokens_generated": 9.1e9,
}


def scan_of(layout: Layout, now_ms: int, *, dead: bool = False) -> Scan:
    """One look: the same value for every point of a kind."""
    if dead:
        n = len(layout)
        quality = np.full(n, BAD_TIMEOUT, dtype=np.uint8)
        return Scan(layout, np.full(n, np.nan), quality, now_ms, now_ms, now_ms / 1e3)
    values = np.array([NUMBERS[p.id.kind] for p in layout.points])
    quality = np.zeros(len(layout), dtype=np.uint8)
    return Scan(layout, values, quality, now_ms, now_ms, now_ms / 1e3)


def alarm(key: str, text: str, at_ms: int = START_MS, **more: Any) -> AlarmEvent:
    """A standing alarm."""
    kind, _, subject = key.partition(":")
    base = AlarmEvent(key, kind, subject, Severity.WARNING, True, text, at_ms, page=True)
    return replace(base, **more)


@dataclass
class Standing:
    """A control loop that stands still: what its last cycle was given, and what it was told."""

    hall: MemoryHall
    told: tuple[Maintenance, ...] = ()
    shed: Shed | None = None
    shedding: Shedding | None = None
    woken: int = 0

    @property
    def memory(self) -> Memory:
        return Memory.empty(self.hall.site)

    @property
    def inputs(self) -> CycleInput | None:
        seen = self.hall.seen
        if seen is None:
            return None
        now_ms, now_s = self.hall.clock.ms, self.hall.clock.monotonic_s()
        return CycleInput(
            self.hall.cycle, seen, now_ms, now_s, 3, self.hall.config_sha256, maintenance=self.told
        )

    @property
    def modes(self) -> Mapping[str, Mode]:
        return self.hall.set_modes

    def set_maintenance(self, works: Sequence[Maintenance]) -> None:
        self.told = tuple(works)

    def set_shed(self, shed: Shed | None) -> None:
        self.shed = shed

    def set_shedding(self, proof: Shedding | None) -> None:
        self.shedding = proof

    def wake(self) -> None:
        self.woken += 1


@dataclass
class MemoryHall:
    """Implements `api.hall.Hall`; what the service would do to a plant it does to these fields."""

    facility: Facility
    clock: SetClock
    store: Store
    table: PointTable
    image: LiveImage
    config_sha256: str = "ab" * 32
    feed: Feed = field(default_factory=Feed)
    dead: set[str] = field(default_factory=set)
    cycle: int = 0
    set_modes: dict[str, Mode] = field(default_factory=lambda: {"hall": Mode.AUTO})
    held: dict[str, Override] = field(default_factory=dict)
    released: list[tuple[str, str, str]] = field(default_factory=list)
    database: str | None = None
    latest: Decision | None = None
    seen: Snapshot | None = None
    rack_load_w: float = 23_000.0
    cycle_age_s: float | None = 0.4

    def _study(self, fail: Sequence[str] = ()) -> Any:
        topology = Topology.of(self.facility.power)
        missing = [name for name in fail if name not in topology.elements]
        if missing:
            raise Unknown(f"no element {missing[0]!r}")
        if fail:
            topology = topology.without(fail)
        racks = len(topology.racks)
        load_w = np.full(len(topology.loads), 4_000.0)
        load_w[:racks] = self.rack_load_w
        return study(topology, load_w, np.full(len(topology.feeds), 0.5))

    def scan(self) -> None:
        """Every device answers, except the dead ones; the store keeps it."""
        for layout in self.table.layouts:
            scan = scan_of(layout, self.clock.ms, dead=layout.device in self.dead)
            self.image.update(scan)
            self.store.put(scan)
        self.store.flush().result()

    def run_cycle(self, alarms: Sequence[AlarmEvent] = (), **facts: Any) -> Decision:
        """One finished cycle with what a controller would state, journalled and published."""
        self.cycle += 1
        self.seen = self.image.freeze(self.clock.ms, self.clock.monotonic_s())
        found = self._study()
        topology = self.site.topology
        residuals, _ = reconcile(self.site, topology, self.seen, ReconcileMemory())
        nodes = list(self.facility.nodes)
        because = "ups-a2 after loss of ups-a1: 512 W of 700 W"
        setpoints = [
            Setpoint(PointId(n, "total", "power_cap"), 512.0, Bounds(200.0, 700.0), because)
            for n in nodes
        ]
        commands = [
            Command(s.point, s.value, self.cycle * 1000 + i, 3, self.clock.ms, 2.0, s.because)
            for i, s in enumerate(setpoints[:2])
        ]
        known: dict[str, Any] = {
            "headroom": found.to_json(),
            "sentence": sentence(found),
            "trust": {},
            "corrective": {
                "mode": "preventive",
                "engaged": False,
                "missing": [],
                "shed_s": None,
                "lease_s": None,
            },
            "wiring": wiring_facts(residuals),
            "allocation": {"feasible": True, "policy": "efficiency", "prices": [], "used": "plan"},
            "cooling": {
                "loop-1": {
                    "L": 21.4,
                    "U": 36.1,
                    "target": 34.0,
                    "setpoint": 33.5,
                    "supply_c": 33.4 + math.sin(self.cycle / 5.0) / 3.0,
                    "dew_point_c": 12.9,
                    "margin_k_to_dew": 20.5,
                    "margin_k_to_throttle": 9.7,
                    "active_bound": "least tokens lost per watt",
                    "text": "33.5 °C: the least of fans, chiller and leakage per token.",
                }
            },
            "efficiency": {
                "racks": {
                    r: {"tokens_per_s": 7300.0, "tokens_per_joule": 0.311, "sustained_p5": 0.305}
                    for r in self.facility.power.racks
                },
                "hall": {
                    "tokens_per_s": 58_400.0,
                    "power_w": 188_800.0 + 900.0 * math.sin(self.cycle / 3.0),
                    "tokens_per_joule": 0.309 + 0.003 * math.sin(self.cycle / 7.0),
                    "sustained_p5": 0.305,
                },
                "twin": {"tokens_per_joule": 0.252},
                "versus_twin": 1.21,
            },
            "last": {"text": "Caps of r03 down to 498 W: row1-a.", "at_ms": self.clock.ms - 4000},
            "next": {"text": "Supply up to 34.0 °C.", "at_ms": self.clock.ms + 16_000},
        }
        self.latest = Decision(
            cycle=self.cycle,
            snapshot=self.seen.number,
            last_scan=self.seen.last_scan,
            now_ms=self.clock.ms,
            setpoints=tuple(setpoints),
            commands=tuple(commands),
            withheld=((PointId(nodes[2], "total", "power_cap"), 530.0, "data of r02 not good"),),
            alarms=tuple(alarms),
            facts=known | facts,
            config_sha256=self.config_sha256,
        )
        self.store.journal_intent(self.latest).result()
        self.store.record_alarms(alarms, list(self.facility.alerts.webhooks)).result()
        self.cords.after_cycle(self.latest)
        self.feed.publish(self.latest)
        return self.latest

    # ---- what the service's upkeep needs of a loop ------------------------------------------

    @functools.cached_property
    def site(self) -> SiteModel:
        return SiteModel.of(self.facility, self.table)

    @functools.cached_property
    def cords(self) -> ServiceCords:
        return ServiceCords(self.site, self.store, self.clock, self.config_sha256, Standing(self))

    @functools.cached_property
    def drills(self) -> ServiceDrills:
        return ServiceDrills(self.site, self.store, self.clock, Standing(self), allowed=False)

    @functools.cached_property
    def upkeep(self) -> ServiceUpkeep:
        return ServiceUpkeep(
            self.site, self.store, self.clock, InlineWorkers(), self.config_sha256, Standing(self)
        )

    # ---- api.hall.Hall -------------------------------------------------------------------------

    def snapshot(self) -> Snapshot | None:
        return self.seen

    def decision(self) -> Decision | None:
        return self.latest

    def devices(self) -> Sequence[DeviceStatus]:
        return [
            DeviceStatus(
                layout.device,
                "pdu/apc-rpdu2",
                "127.0.0.1:161",
                "bad" if layout.device in self.dead else "good",
                self.clock.ms,
                detail="timeout" if layout.device in self.dead else "",
            )
            for layout in self.table.layouts
        ]

    def status(self) -> ServiceStatus:
        return ServiceStatus(
            started_ms=START_MS,
            uptime_s=60.0,
            cycle_age_s=self.cycle_age_s,
            database=self.database,
            migrated=True,
            epoch=3,
            cycle_ms={"p50": 3.1, "p99": 9.0, "max": 14.2},
            samples_stored=1000,
        )

    def modes(self) -> Mapping[str, Mode]:
        return self.set_modes

    def overrides(self) -> Sequence[Override]:
        return list(self.held.values())

    async def single_line(self, fail: Sequence[str]) -> Mapping[str, Any]:
        before, after = self._study(), self._study(fail)
        left_s = np.full(len(after.topology.elements), math.inf)
        loops = self.facility.cooling.loops
        caps = {"text": "No cap has to come down.", "nodes": [], "fits": True} if fail else None
        return compose(before, after, fail=fail, lost=(), left_s=left_s, loops=loops, caps=caps)

    async def what_if(self, fail: Sequence[str]) -> Mapping[str, Any]:
        found: dict[str, Any] = self._study(fail).to_json()
        return found

    async def set_mode(self, scope: str, mode: Mode, by: str, reason: str) -> None:
        if not self.facility.control.enabled:
            raise Refused("the facility file does not enable control", "control.enabled")
        self.set_modes[scope] = mode

    async def add_override(
        self, point: PointId, value: float, minutes: float, by: str, reason: str
    ) -> Granted:
        spec = self.table.specs[self.table.index[point]]
        if not spec.writable:
            raise Refused(f"{point} is not writable", "profile")
        if value > 900.0:
            raise Refused(f"{value:g} W does not fit", "ups-a2 after loss of ups-a1")
        granted = min(value, 700.0)
        until_ms = self.clock.ms + round(minutes * 60e3)
        override = Override(
            f"o{len(self.held) + 1}", point, granted, by, reason, self.clock.ms, until_ms
        )
        self.held[override.id] = override
        return Granted(override, value, "max_cap" if granted < value else None)

    async def cancel_override(self, override_id: str, by: str) -> Override:
        if override_id not in self.held:
            raise Unknown(f"no override {override_id!r} is in force")
        return self.held.pop(override_id)

    def release_preview(self, scope: str) -> Released:
        if scope not in scopes(self):
            raise Unknown(f"no scope {scope!r}")
        return Released(scope, 48_000.0, f"{scope}: up to 0.048 MW may come back within 10 min.")

    async def release(self, scope: str, by: str, reason: str) -> Released:
        seen = self.release_preview(scope)
        self.released.append((scope, by, reason))
        return seen

    async def test_webhook(self, sink: str) -> SinkTest:
        if sink not in self.facility.alerts.webhooks:
            raise Unknown(f"no webhook {sink!r}")
        return SinkTest(sink, True, 204, None, 0.02)


def hall_of(facility: Facility, store_url: str = "sqlite://") -> MemoryHall:
    """A hall without any cycle yet."""
    clock = SetClock()
    table = PointTable.of(layouts(facility))
    store = open_store(store_url, clock, inline=True)
    return MemoryHall(facility, clock, store, table, LiveImage(table))


@functools.cache
def demo_facility() -> Facility:
    """The demo file, read once."""
    return with_sink(load(str(DEMO)))


def demo_hall(cycles: int = 1) -> MemoryHall:
    """The demo's hall after some cycles, one a second, all devices answering."""
    hall = hall_of(demo_facility())
    for _ in range(cycles):
        hall.clock.turn(1.0)
        hall.scan()
        hall.run_cycle()
    return hall


def with_sink(facility: Facility, url: str = "http://127.0.0.1:9/hook") -> Facility:
    """The same facility with a webhook named `pager`."""
    raw = {"webhooks": {"pager": {"url": url, "secret": {"env": "PAGER_SECRET"}}}}
    alerts = type(facility.alerts).model_validate(raw)
    return facility.model_copy(update={"alerts": alerts})
