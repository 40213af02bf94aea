"""Put a hall together: file, store, devices, controllers, people. The only place that knows all."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from api.remote_write import Fanout, RemoteWriter
from api.service import secrets
from api.service.hall_lease import HallLease
from api.service.journalling import HallJournal
from api.service.letting_go import walk_seconds
from api.service.overlay import Overlay
from api.service.parts import Parts
from api.service.service import Service
from api.service.trapping import Trapping
from api.webhooks import Courier, Post, Sink, decode_secret, sinks_of
from controllers.cycle.state import recorded_shape
from controllers.loop import ControlLoop
from drivers.catalog import build_device
from drivers.collect import Collector
from drivers.credentials import Credentials
from drivers.node import NodeDevice
from drivers.publishing import Broker
from drivers.transport import Links
from facility.clock import Clock
from facility.completing import complete_for_simulation
from facility.config import Alerts, AuthConfig, Facility, SecretSource, Webhook
from facility.loading import Loaded
from facility.points import PointTable, Scan
from facility.ports import Bus, Device, Workers
from facility.recording import Recorder
from facility.site import SiteModel
from facility.snapshot import LiveImage
from facility.store import Store
from facility.store.rows.alarms import Sinks


@dataclass(frozen=True)
class Outside:
    """What a hall needs from the world around the process.

    Attributes:
        devices: makes the devices that are asked or that publish; nodes are made here.
        bus: of the agents, not yet started.
        post: sends webhooks.
        sinks: webhook name -> address and secret.
        owner: of the hall's lease; differs between two controllers.
        link: address of the page as people reach it.
        remote: where samples go beside the store; None for nowhere.
    """

    devices: Callable[[Facility], Sequence[Device]]
    bus: Bus
    post: Post
    sinks: Mapping[str, Sink]
    owner: str
    link: str
    remote: RemoteWriter | None = None


def simulated(facility: Facility, webhooks: Mapping[str, str]) -> Facility:
    """The facility as a simulation runs it: completed, its alarms sent to the simulation's hooks.

    Args:
        facility: as loaded.
        webhooks: name -> URL; they take the place of the file's.
    """
    complete = complete_for_simulation(facility)
    nowhere = SecretSource()
    hooks = {name: Webhook(url=url, secret=nowhere) for name, url in webhooks.items()}
    alerts: Alerts = complete.alerts.model_copy(update={"webhooks": hooks})
    return complete.model_copy(update={"alerts": alerts})


def credentials_of(facility: Facility, overlay: Overlay | None) -> dict[str, Credentials]:
    """Auth name -> credentials, from where the file says they are.

    Raises:
        SecretMissing: one is not there.
        ValueError: an SNMPv3 passphrase that is too short.
    """
    if overlay is not None:
        return {name: Credentials(secret=overlay.community) for name in facility.auth}
    return {name: _credentials(name, auth) for name, auth in facility.auth.items()}


def _credentials(name: str, auth: AuthConfig) -> Credentials:
    privacy = "" if auth.privacy_secret is None else secrets.find(auth.privacy_secret)
    found = Credentials(
        auth.kind,
        auth.user,
        secrets.find(auth.secret) if auth.needs_secret else "",
        auth.digest,
        auth.cipher,
        privacy,
        auth.context,
    )
    fault = found.fault()
    if fault is not None:
        raise ValueError(f"auth {name}: {fault}")
    return found


def traps_for(service: Service, sinks: Sinks) -> Trapping | None:
    """The port of traps as the file wants it; None where it wants none.

    Raises:
        SecretMissing: a login is not there.
        ValueError: an SNMPv3 passphrase that is too short.
    """
    facility = service.facility
    if facility.traps is None:
        return None
    return Trapping(
        facility,
        facility.traps.address,
        [_credentials(name, facility.auth[name]) for name in facility.traps.auth],
        service.collector,
        service.feed,
        HallJournal(service.store, sinks).alarms,
        service.clock,
    )


def sinks_from(facility: Facility, overlay: Overlay | None) -> dict[str, Sink]:
    """Webhook name -> address and decoded secret.

    Raises:
        SecretMissing: a secret is not there.
        ValueError: a secret is no webhook secret.
    """
    if overlay is not None:
        return {n: Sink(h.url, decode_secret(h.secret)) for n, h in overlay.webhooks.items()}
    return {
        name: Sink(hook.url, decode_secret(secrets.find(hook.secret)))
        for name, hook in facility.alerts.webhooks.items()
    }


def field_devices(
    clock: Clock, brokers: Mapping[str | None, Broker], overlay: Overlay | None
) -> Callable[[Facility], Sequence[Device]]:
    """Devices over real protocols; `overlay` moves them to a simulator's addresses.

    Args:
        clock: of the process.
        brokers: by name; None is the one of devices that name none.
        overlay: of a simulation.
    """

    def make(facility: Facility) -> Sequence[Device]:
        # Numbers of SNMP requests and salts of SNMPv3 must not be foreseen, nor come again after
        # a restart.
        links = Links(clock, random.SystemRandom())
        known = credentials_of(facility, overlay)
        made: list[Device] = []
        for name, entry in facility.devices.items():
            address = entry.address
            if overlay is not None:
                address = overlay.addresses.get(name, address)
            made.append(
                build_device(entry, name, address, known, clock, brokers[entry.broker], links)
            )
        return made

    return make


def build(
    loaded: Loaded,
    facility: Facility,
    outside: Outside,
    store: Store,
    clock: Clock,
    workers: Workers,
    rng: random.Random,
    record: Path | None = None,
    *,
    is_simulated: bool = False,
) -> Service:
    """A hall, ready to run; nothing is sent and no task is started here.

    Args:
        loaded: the file.
        facility: what it says, completed if it is simulated.
        outside: the world around the process.
        store: opened.
        clock: of the process.
        workers: where plans are solved.
        rng: jitter of polls and retries.
        record: where to record the run, or None.
        is_simulated: whether `facility` was completed for a simulation.
    """
    devices = list(outside.devices(facility))
    agents = facility.agents
    ramp_s = walk_seconds(facility)
    nodes = {
        name: NodeDevice(
            name,
            node,
            outside.bus,
            clock,
            prefix=agents.topic_prefix,
            lease_s=agents.lease,
            hold_s=agents.hold,
            spread_s=ramp_s,
        )
        for name, node in facility.nodes.items()
    }
    everything: list[Device] = [*devices, *nodes.values()]
    table = PointTable.of(layout for device in everything for layout in device.layouts)
    image = LiveImage(table)
    site = SiteModel.of(facility, table)
    recorder = None
    if record is not None:
        text = loaded.text.decode("utf-8")
        recorder = Recorder(
            _free(record), text, table, shape=recorded_shape(), simulated=is_simulated
        )
    lease = HallLease(store, clock, hall=facility.site.name, owner=outside.owner)
    made: list[Service] = []

    def on_scan(scan: Scan, number: int) -> None:
        if recorder is not None:
            recorder.scan(scan)
        made[0].notice(scan, number)

    samples = store if outside.remote is None else Fanout(store, outside.remote.sink)
    collector = Collector(everything, image, samples, clock, rng, on_scan)
    courier = Courier(
        store,
        outside.sinks,
        clock,
        rng,
        outside.post,
        hall=facility.site.name,
        link=outside.link,
    )
    journal = HallJournal(store, sinks_of(facility))
    parts = Parts(
        loaded=loaded,
        facility=facility,
        clock=clock,
        store=store,
        site=site,
        image=image,
        devices={device.id: device for device in everything},
        nodes=nodes,
        collector=collector,
        lease=lease,
        courier=courier,
        workers=workers,
        simulated=is_simulated,
        recorder=recorder,
        remote=outside.remote,
    )

    def make_loop(service: Service) -> ControlLoop:
        return ControlLoop(
            site,
            image,
            clock,
            workers,
            journal,
            service.apply,
            config_sha256=loaded.sha256,
            sequence_base=clock.utc_ms(),
            epoch=lambda: lease.epoch,
            spool=journal.spool,
            recorder=recorder,
            on_cycle=service.after_cycle,
        )

    service = Service(parts, make_loop)
    made.append(service)
    return service


def _free(path: Path) -> Path:
    """The path, or with a number if a run before this one was recorded there."""
    free, number = path, 1
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}.{number}{path.suffix}")
    return free
