"""What one running hall shows of itself: its parts, the last cycle, its devices and its health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from api.hall import DeviceStatus, Feed, ServiceStatus
from api.remote_write import RemoteWriter
from api.service.hall_lease import HallLease
from api.service.parts import Parts
from api.service.timings import cycle_milliseconds
from api.service.trapping import Trapping
from api.webhooks import Courier
from controllers.loop import ControlLoop
from drivers.collect import Collector
from drivers.node import NodeDevice
from facility.clock import Clock
from facility.commands import Decision, Mode
from facility.config import Facility
from facility.points import PointTable
from facility.snapshot import Snapshot
from facility.store import Store


class Showing:
    """The reading half of `api.hall.Hall`; who inherits it makes the loop."""

    loop: ControlLoop
    traps: Trapping | None = None

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._started_ms = parts.clock.utc_ms()
        self._started_s = parts.clock.monotonic_s()
        self._cycle_s: float | None = None
        self._feed = Feed()

    @property
    def facility(self) -> Facility:
        """The loaded file."""
        return self._parts.facility

    @property
    def file_text(self) -> str:
        """Of that file, as it was read."""
        return self._parts.loaded.text.decode("utf-8", errors="replace")

    @property
    def config_sha256(self) -> str:
        """Of that file."""
        return self._parts.loaded.sha256

    @property
    def clock(self) -> Clock:
        """What time it is here."""
        return self._parts.clock

    @property
    def table(self) -> PointTable:
        """Every point of the site."""
        return self._parts.image.table

    @property
    def store(self) -> Store:
        """History, journal, alarms, outbox, audit, keys."""
        return self._parts.store

    @property
    def feed(self) -> Feed:
        """Finished decisions, to all who listen."""
        return self._feed

    @property
    def lease(self) -> HallLease:
        """The right to control this hall."""
        return self._parts.lease

    @property
    def collector(self) -> Collector:
        """Polls the devices."""
        return self._parts.collector

    @property
    def courier(self) -> Courier:
        """Delivers webhooks."""
        return self._parts.courier

    @property
    def remote(self) -> RemoteWriter | None:
        """Sends samples to the receiver of the file, if it names one."""
        return self._parts.remote

    @property
    def nodes(self) -> Mapping[str, NodeDevice]:
        """GPU nodes by name."""
        return self._parts.nodes

    def snapshot(self) -> Snapshot | None:
        """The readings that the last cycle saw."""
        inputs = self.loop.inputs
        return None if inputs is None else inputs.snapshot

    def decision(self) -> Decision | None:
        """The last finished decision."""
        return self.loop.latest

    def modes(self) -> Mapping[str, Mode]:
        """Modes in force, by scope."""
        return self.loop.modes

    def devices(self) -> Sequence[DeviceStatus]:
        """Health of every device and node."""
        return [
            DeviceStatus(
                h.id,
                self._profile_of(h.id),
                h.endpoint,
                h.state,
                h.last_good_ms,
                h.failures,
                h.overruns,
                h.detail,
                h.look_s,
                h.doubts,
                h.odd,
            )
            for h in self._parts.collector.health()
        ]

    def _profile_of(self, device: str) -> str:
        entry = self.facility.devices.get(device)
        return entry.profile if entry is not None else "node/agent"

    def status(self) -> ServiceStatus:
        """Health of the service itself."""
        now_s = self.clock.monotonic_s()
        took = self.loop.stats.cycle_ms
        stats = self.store.stats()
        return ServiceStatus(
            started_ms=self._started_ms,
            uptime_s=now_s - self._started_s,
            cycle_age_s=None if self._cycle_s is None else now_s - self._cycle_s,
            database=None if self._parts.lease.journal_up else "the database does not answer",
            migrated=True,
            epoch=self._parts.lease.epoch,
            cycle_ms=cycle_milliseconds(took),
            samples_stored=stats.samples,
            samples_dropped=stats.dropped_samples,
            samples_queued=stats.queued_samples,
            samples_waiting_s=stats.waiting_s,
            remote=None if self.remote is None else self.remote.health(),
            traps=None if self.traps is None else dict(self.traps.counts),
        )
