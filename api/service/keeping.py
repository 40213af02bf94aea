"""Write down what a restart must not forget: how far trip clocks had run, measured overheads."""

from __future__ import annotations

import asyncio
import json
from typing import Final, Protocol

import structlog

from controllers.cycle.state import CycleInput, Memory, to_keep
from controllers.kept import Kept
from controllers.trips import rested
from facility.clock import Clock
from facility.site import SiteModel
from facility.store import Store, StoreError
from facility.store.adapters import committed

log = structlog.get_logger(__name__)

#: How often clocks are looked at, and how old what is written may become while none moves, s.
LOOK_S: Final = 5.0
OLDEST_S: Final = 60.0
#: A clock that moved by less than this need not be written at once.
MOVED: Final = 0.01


class Cycling(Protocol):
    """What of the control loop is needed here."""

    @property
    def memory(self) -> Memory:
        """What the last cycle left."""

    @property
    def inputs(self) -> CycleInput | None:
        """What the last cycle was given."""

    def set_kept(self, kept: Kept | None) -> None:
        """What the controller before this one left."""


class ServiceKeeping:
    """Keeps it in the database of the site, by hall."""

    def __init__(
        self, site: SiteModel, store: Store, clock: Clock, loop: Cycling, *, simulated: bool
    ) -> None:
        """Wire it.

        Args:
            site: the site.
            store: of the site.
            clock: of the process.
            loop: whose memory is kept.
            simulated: the plant starts with the first controller, so its clocks are rested then.
        """
        self._site, self._store, self._clock, self._loop = site, store, clock, loop
        self._simulated = simulated
        self._key = f"kept:{site.facility.site.name}"
        self._written: Kept | None = None

    async def restore(self) -> None:
        """Hand the control loop what the controller before it left."""
        text = await committed(self._store.meta(self._key))
        kept = None if text is None else _read(text)
        if text is None and self._simulated:
            kept = rested(self._site, self._clock.utc_ms())
            await self._write(kept)
        if text is not None and kept is None:
            log.warning("kept_not_readable", key=self._key)
        self._loop.set_kept(kept)

    async def run(self) -> None:
        """Write while the controller runs."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.note()
            except StoreError as error:
                log.warning("not_kept", error=str(error))

    async def note(self) -> None:
        """Write what is known now, if it is news or what is written is old."""
        inputs = self._loop.inputs
        if inputs is None:
            return
        kept = to_keep(self._site, self._loop.memory, inputs.now_ms)
        if kept is not None and self._news(kept):
            await self._write(kept)

    def _news(self, kept: Kept) -> bool:
        before = self._written
        if before is None or not 0 <= kept.at_ms - before.at_ms < round(1000.0 * OLDEST_S):
            return True
        return any(abs(x - before.used.get(name, 1.0)) >= MOVED for name, x in kept.used.items())

    async def _write(self, kept: Kept) -> None:
        text = json.dumps(kept.to_json(), allow_nan=False, separators=(",", ":"))
        await committed(self._store.set_meta(self._key, text))
        self._written = kept


def _read(text: str) -> Kept | None:
    try:
        return Kept.from_json(json.loads(text))
    except ValueError:
        return None
