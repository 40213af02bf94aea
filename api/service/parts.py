"""What a hall is put together from; see `api.service.wiring`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from api.remote_write import RemoteWriter
from api.service.hall_lease import HallLease
from api.webhooks import Courier
from drivers.collect import Collector
from drivers.node import NodeDevice
from facility.clock import Clock
from facility.config import Facility
from facility.loading import Loaded
from facility.ports import Device, Workers
from facility.recording import Recorder
from facility.site import SiteModel
from facility.snapshot import LiveImage
from facility.store import Store


@dataclass
class Parts:
    """What wiring puts together; `simulated`: there is no plant but a simulated one."""

    loaded: Loaded
    facility: Facility
    clock: Clock
    store: Store
    site: SiteModel
    image: LiveImage
    devices: Mapping[str, Device]
    nodes: Mapping[str, NodeDevice]
    collector: Collector
    lease: HallLease
    courier: Courier
    workers: Workers
    simulated: bool = False
    recorder: Recorder | None = None
    remote: RemoteWriter | None = None
