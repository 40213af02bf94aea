"""A device: a profile on a transport. Reads by layout; writes through `drivers.writing`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.profile import Identity, IdentitySource
from drivers.profile.binding import At, Binding, BoundPoint, Places, resolve
from drivers.profile.codec import Answer, Decoded, decode, text_of
from drivers.profile.compiled import Decoder, added
from drivers.transport import Counting, Transport, Troubled
from drivers.writing import Writer
from facility.clock import Clock
from facility.commands import Ack, Command
from facility.points import Flaw, Layout, Scan

#: no look at a device takes longer, whatever its transport promises
READ_DEADLINE_S: Final = 6.0


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Who a device says it is; None where it does not say."""

    vendor: str | None = None
    model: str | None = None
    firmware: str | None = None
    serial: str | None = None


class ProfiledDevice:
    """Implements `facility.ports.Device` for every register-like transport."""

    def __init__(self, binding: Binding, transport: Transport, clock: Clock) -> None:
        self.binding = binding
        self.transport = transport
        self._clock = clock
        self._writer = Writer(binding, transport, clock)
        self._places = {
            layout.key: Places.of(at for p in binding.points[layout.key] for at in p.places)
            for layout in binding.layouts
        }
        self._decoders = {
            key: Decoder(binding.points[key], binding.sums[key], places)
            for key, places in self._places.items()
        }

    @property
    def id(self) -> str:
        """Name in the facility file."""
        return self.binding.device

    @property
    def endpoint(self) -> str:
        """The shared thing it talks through."""
        return self.transport.endpoint

    @property
    def trouble(self) -> str:
        """Why there was no answer, where the transport knows (a wrong passphrase); else empty."""
        return self.transport.trouble if isinstance(self.transport, Troubled) else ""

    @property
    def odd(self) -> Mapping[str, int]:
        """What was odd in its answers, by name, where the transport counts it."""
        return self.transport.odd if isinstance(self.transport, Counting) else {}

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """One per poll class, fixed for the life of the device."""
        return self.binding.layouts

    def period_s(self, layout: Layout) -> float:
        """How often the layout wants to be read."""
        return self.binding.periods[layout.key]

    async def look(self, layout: Layout) -> tuple[Decoded, ...]:
        """One look at one layout: value, quality and raw of each point, in its order."""
        return self.decoded(layout, await self.fetch(layout))

    async def fetch(self, layout: Layout) -> Mapping[At, Answer]:
        """The raws of one layout, place by place."""
        return await self._fetch(self._places[layout.key])

    def decoded(self, layout: Layout, answers: Mapping[At, Answer]) -> tuple[Decoded, ...]:
        """What raws say of each point of a layout, sums included."""
        seen = [_decoded(point, answers) for point in self.binding.points[layout.key]]
        sums = self.binding.sums[layout.key]
        return (*seen, *(added([seen[i] for i in total.members]) for total in sums))

    async def read(self, layout: Layout) -> Scan:
        """One look as a scan; all BAD when nothing was read."""
        answers = await self._answers(self._places[layout.key])
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        values, grades = self._decoders[layout.key](answers)
        return Scan(layout, values, grades, now_ms, now_ms, now_s)

    async def identify(self) -> DeviceIdentity:
        """Ask who it is; what cannot be learnt is None."""
        identity = self.binding.profile.identity
        names = ("vendor", "model", "firmware", "serial")
        sources: dict[str, Sequence[IdentitySource]] = {n: getattr(identity, n) for n in names}
        places = identity_places(identity)
        answers = await self._fetch(Places.of(places)) if places else {}
        return DeviceIdentity(**{name: _text(sources[name], answers) for name in names})

    async def write(self, command: Command) -> Ack:
        """One attempt, read back after the point's settle time; see `drivers.writing`."""
        return await self._writer.write(command)

    async def close(self) -> None:
        """Let go of the transport."""
        await self.transport.close()

    async def _answers(self, places: Places) -> Sequence[Answer]:
        try:
            async with asyncio.timeout(READ_DEADLINE_S):
                return await self.transport.fetch(places)
        except TimeoutError:
            return (Flaw.TIMEOUT,) * len(places.at)

    async def _fetch(self, places: Places) -> Mapping[At, Answer]:
        return dict(zip(places.at, await self._answers(places), strict=True))


def identity_places(identity: Identity) -> dict[At, list[tuple[str, IdentitySource]]]:
    """Every place that an identity is read from, with what is looked for there."""
    places: dict[At, list[tuple[str, IdentitySource]]] = {}
    for name in ("vendor", "model", "firmware", "serial"):
        for source in getattr(identity, name):
            if source.at is not None:
                places.setdefault(resolve(source.at), []).append((name, source))
    return places


def _text(sources: Sequence[IdentitySource], answers: Mapping[At, Answer]) -> str | None:
    for source in sources:
        if source.at is None:
            return source.text
        at = resolve(source.at)
        text = text_of(answers.get(at, Flaw.TIMEOUT), at, source.after, source.until)
        if text is not None:
            return text
    return None


def _decoded(point: BoundPoint, answers: Mapping[At, Answer]) -> Decoded:
    return decode(
        point,
        answers.get(point.at, Flaw.TIMEOUT),
        answers.get(point.digits, Flaw.TIMEOUT) if point.digits else None,
        answers.get(point.unit_at, Flaw.TIMEOUT) if point.unit_at else None,
    )
