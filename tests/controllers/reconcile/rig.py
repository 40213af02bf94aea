"""The simulated plant, wired one way, seen through a file that may say another."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drivers.sim import scenarios
from drivers.sim.plant.world import World
from drivers.sim.scenarios import Scenario
from facility.config import Facility
from facility.loading import load_text
from facility.points import Flaw, Layout, PointId, PointSpec, PointTable, Scan
from facility.site import SiteModel
from facility.snapshot import LiveImage, Snapshot
from tests.conftest import ROOT
from tests.drivers.sim.halls import good_start

EPOCH_MS = 1_790_000_000_000
DEMO = (ROOT / "facility" / "demo.yaml").read_text(encoding="utf-8")
METERS = """
  meter-row[1-2]-[a,b]:
    {profile: pdu/raritan-px, address: "snmp://m-{1}{2}:161", auth: snmp,
     measures: {element: "row{1}-{2}"}}
  meter-cdu-[1-2]-[a,b]:
    {profile: pdu/raritan-px, address: "snmp://c-{1}{2}:161", auth: snmp,
     measures: {load: "cdu-{1}", feed: "{2}"}}
"""
#: As the plant is wired; each busway and each CDU cord has a meter of its own.
TRUE = DEMO.replace("\ndevices:\n", f"\ndevices:{METERS}", 1)
ROW_2 = "    r[05-08]: {feeds: {a: row2-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}"
#: As somebody wrote it down: cord a of r05 hangs on row 2, not on row 1.
WRONG = TRUE.replace(
    ROW_2,
    "    r05: {feeds: {a: row1-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}\n"
    "    r[06-08]: {feeds: {a: row2-a, b: row2-b}, rating: 32 kW, overhead: 2 kW}",
)


@lru_cache(maxsize=8)
def facility(text: str) -> Facility:
    return load_text(text).facility


class View:
    """What a controller with the file `declared` sees of a plant that is wired as in `true`."""

    def __init__(
        self, declared: str, scenario: Scenario | str = "steady", true: str = TRUE
    ) -> None:
        wired = facility(true)
        if isinstance(scenario, str):
            scenario = scenarios.load(scenario)
        self.world = World.of(wired, 1, scenario, 900.0, good_start(wired))
        layouts = [
            Layout(m, "fast", (PointSpec(PointId(m, "total", "active_power"), -1e3, 1e7, 5.0),))
            for m, device in wired.devices.items()
            if device.measures.element or device.measures.feed
        ]
        self.site = SiteModel.of(facility(declared), PointTable.of(layouts))
        self.image = LiveImage(self.site.table)
        self.silent: set[str] = set()
        self.now_s = 100.0

    def second(self) -> Snapshot:
        """A second of the plant, read by every meter that answers."""
        self.world.advance(1.0)
        self.now_s += 1.0
        for layout in self.site.table.layouts:
            device, at = layout.device, (EPOCH_MS, self.now_s)
            value = self.world.plant.value(device, "total", "active_power")
            dead = self.world.plant.device_health(device) == "dead"
            if dead or device in self.silent or value is None:
                scan = Scan.missing(layout, Flaw.TIMEOUT, *at)
            else:
                good = np.zeros(1, dtype=np.uint8)
                scan = Scan(layout, np.array([value]), good, at[0], *at)
            self.image.update(scan)
        return self.image.freeze(EPOCH_MS, self.now_s)
