"""Run a hall's tasks under supervision until told to stop; the same for field and simulation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import structlog

from api.service.service import Service
from api.service.store_care import StoreCare
from api.service.supervision import Supervisor
from drivers.node import keep_leases
from facility.commands import Mode
from facility.ports import Bus
from facility.store import StoreError, committed

log = structlog.get_logger(__name__)

#: Open intents are resolved once devices have had this long to answer.
RESOLVE_AFTER_S = 5.0


class Running:
    """Tasks of one hall: poll, decide, lease, deliver."""

    def __init__(
        self, service: Service, bus: Bus, rng: random.Random, others: Sequence[Bus] = ()
    ) -> None:
        """Take the service, the agents' bus, jitter, and the buses of other brokers."""
        self._service = service
        self._bus, self._others = bus, tuple(others)
        self.supervisor = Supervisor(service.clock, rng)

    async def start(self) -> None:
        """Restore what the database knows, then start every task."""
        service = self._service
        await service.restore()
        await committed(service.store.keep_facility_file(service.file_text))
        service.loop.set_away(await service.absence.starting(service.lease.ttl_s))
        for bus in (self._bus, *self._others):
            await bus.start()
        await service.lease.once()
        self.supervisor.fatal("control loop", service.loop.run)
        for name, work in self._background().items():
            self.supervisor.restart(name, work)

    def _background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        service = self._service
        nodes = list(service.nodes.values())
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "hall lease": service.lease.run,
            "collectors": service.collector.run,
            "node leases": lambda: keep_leases(nodes, self._lease_for_nodes),
            "webhooks": service.courier.run,
            "letting go": service.letting_go.run,
            "open intents": self._resolve,
            "keeping": service.keeping.run,
            "store care": StoreCare(service.store, service.clock).run,
        }
        if service.remote is not None:
            tasks["remote write"] = service.remote.run
        if service.traps is not None:
            tasks["traps"] = service.traps.run
        return tasks

    def _lease_for_nodes(self) -> tuple[str, int] | None:
        """Nodes are leased only while somebody acts on them, or they wait to be released."""
        service = self._service
        needed = Mode.AUTO in service.modes().values() or service.letting_go.busy
        return service.lease.held() if needed else None

    async def _resolve(self) -> None:
        await asyncio.sleep(RESOLVE_AFTER_S)
        await self._service.resolve_open_intents()
        await asyncio.Event().wait()

    async def stop(self) -> tuple[str, ...]:
        """Stop the writers, then everything else; leases of nodes are left to live on.

        Returns:
            names of tasks that did not end.
        """
        await self._service.drills.close()
        stuck = await self.supervisor.stop()
        self._service.close_recording()
        try:
            await self._service.keeping.note()
            await self._service.absence.stopping()
        except StoreError as error:
            log.warning("stop_not_noted", error=str(error))
        await self._service.lease.give_back()
        await asyncio.gather(*(bus.close() for bus in (self._bus, *self._others)))
        return stuck
