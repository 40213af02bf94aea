"""An object of the Exchange (a CDU, a rack, a power meter) as a device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import structlog

from drivers.dsx.exchange import Exchange, read_value
from drivers.dsx.metadata import PointMeta, factors
from drivers.mqtt.latest import Message
from drivers.profile import DsxWhere
from drivers.profile.binding import Binding, BoundPoint, DsxAt
from drivers.profile.codec import Decoded, bad, judge
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.kinds import Nature
from facility.points import Flaw, Grade, Layout, Scan, grade_of, quality

#: A clock that is further ahead than this is worth a note.
SKEW_MS: Final = 5_000

_log = structlog.get_logger("wattkeeper.dsx")


class DsxDevice:
    """Implements `facility.ports.Device` for profiles of protocol `dsx`."""

    def __init__(
        self,
        binding: Binding,
        exchange: Exchange,
        clock: Clock,
        object_id: str,
        *,
        endpoint: str = "broker",
    ) -> None:
        """Ask the exchange for the object's values.

        Args:
            binding: profile bound to the device.
            exchange: shared by all devices of a broker.
            clock: ages.
            object_id: the BMS's objectId, or rackLocationId of a rack.
            endpoint: what health reports group devices by.

        Raises:
            ValueError: a profile of another protocol.
        """
        if binding.profile.protocol != "dsx":
            raise ValueError(f"{binding.profile.profile} is no profile of the DSX Exchange")
        self.binding = binding
        self._exchange, self._clock = exchange, clock
        self._object_id, self._endpoint = object_id, endpoint
        self._told: set[str] = set()
        for where in self._wheres():
            exchange.want(where.object, object_id)

    @property
    def id(self) -> str:
        """Name in the facility file."""
        return self.binding.device

    @property
    def endpoint(self) -> str:
        """The broker."""
        return self._endpoint

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """One per poll class, fixed for the life of the device."""
        return self.binding.layouts

    def period_s(self, layout: Layout) -> float:
        """How often the latest values are looked at."""
        return self.binding.periods[layout.key]

    async def read(self, layout: Layout) -> Scan:
        """The latest values; received when the newest message in them was."""
        await self._exchange.start()
        now_ms, now_s = self._clock.utc_ms(), self._clock.monotonic_s()
        seen, newest, told_ms = [], None, None
        for point in self.binding.points[layout.key]:
            decoded, message, at_ms = self._look(point, now_s)
            seen.append(decoded)
            if message is not None and (newest is None or message.received_s > newest.received_s):
                newest, told_ms = message, at_ms
        received_ms = now_ms if newest is None else newest.received_ms
        sane = told_ms is not None and abs(told_ms - received_ms) <= SKEW_MS
        return Scan(
            layout,
            np.array([d.value for d in seen], dtype=np.float64),
            np.array([d.quality for d in seen], dtype=np.uint8),
            told_ms if sane and told_ms is not None else received_ms,
            received_ms,
            now_s if newest is None else newest.received_s,
        )

    async def write(self, command: Command) -> Ack:
        """Refuse: the Exchange is only read."""
        detail = f"{command.point} is not writable"
        return Ack(command, Outcome.REJECTED, None, detail, self._clock.utc_ms())

    async def close(self) -> None:
        """Stop our heartbeat with the first device that goes; all go together."""
        await self._exchange.close()

    def _wheres(self) -> Iterable[DsxWhere]:
        return [point.at.where for point in self.binding.all() if isinstance(point.at, DsxAt)]

    def _look(self, point: BoundPoint, now_s: float) -> tuple[Decoded, Message | None, int | None]:
        """The value of a point, the message that it is from, and the time that this says."""
        assert isinstance(point.at, DsxAt)
        where = point.at.where
        offered = self._exchange.of(where.object, self._object_id)
        found = choose(where, offered.values())
        if not found:
            # Metadata comes first: without any of the object, nobody knows what it has.
            return bad(Flaw.REFUSED if offered else Flaw.TIMEOUT), None, None
        meta = found[0]
        message = self._exchange.newest(meta)
        if message is None:
            return bad(Flaw.TIMEOUT), None, None
        raw, at_ms = read_value(message)
        stale = now_s - message.received_s > point.spec.stale_after_s
        if stale or not self._exchange.alive(meta.value_topic):
            return bad(Flaw.STALE), message, at_ms
        decoded = bad(raw) if isinstance(raw, Flaw) else self._decode(point, where, meta, raw)
        if grade_of(decoded.quality) is Grade.GOOD:
            decoded = Decoded(decoded.value, self._grade(found, message, at_ms), decoded.raw)
        return decoded, message, at_ms

    def _decode(self, point: BoundPoint, where: DsxWhere, meta: PointMeta, raw: float) -> Decoded:
        shown = f"{raw:.10g}"
        if point.spec.kind.nature is Nature.STATE:
            code = _code(where, meta, raw)
            return bad(Flaw.UNDECODABLE, shown) if code is None else judge(point, code, shown)
        try:
            scaling = factors(meta.unit, point.spec.kind)
        except ValueError as error:
            self._say(str(error), meta)
            return bad(Flaw.UNDECODABLE, shown)
        if scaling is None:
            return bad(Flaw.REFUSED, shown)
        return judge(point, raw * scaling[0] + scaling[1], shown)

    def _grade(self, found: Sequence[PointMeta], message: Message, at_ms: int | None) -> int:
        if len(found) > 1:
            self._say("several points fit", *found)
            return quality(Grade.SUSPECT, Flaw.SUBSTITUTED)
        if message.retained:
            return quality(Grade.SUSPECT, Flaw.RETAINED)
        ahead = at_ms is not None and at_ms - message.received_ms > SKEW_MS
        return quality(Grade.GOOD, Flaw.CLOCK_SKEW) if ahead else quality(Grade.GOOD)

    def _say(self, what: str, *metas: PointMeta) -> None:
        if what not in self._told:
            self._told.add(what)
            topics = [meta.value_topic for meta in metas[:4]]
            _log.warning("point of the exchange", device=self.id, fault=what, topics=topics)


def choose(where: DsxWhere, offered: Iterable[PointMeta]) -> list[PointMeta]:
    """The points that fit a place, those first whose area says no more than is asked for.

    More than one is left only where they fit equally well.
    """
    area = {word.casefold() for word in where.area}
    fitting = [
        meta
        for meta in offered
        if meta.point_type == where.point
        and area <= meta.area
        and meta.setpoint == where.setpoint
        and (where.phase is None or meta.phase == where.phase)
    ]
    least = min((len(meta.area) for meta in fitting), default=0)
    return sorted((m for m in fitting if len(m.area) == least), key=lambda meta: meta.tag)


def _code(where: DsxWhere, meta: PointMeta, raw: float) -> float | None:
    """Our code of a state: by the BMS's own word for it, else the number itself."""
    if not math.isfinite(raw) or raw != int(raw):
        return None
    words = dict(meta.states)
    if words and int(raw) not in words:
        return None
    known = {_plain(text): code for text, code in where.texts}
    by_word = known.get(_plain(words.get(int(raw), "")))
    if by_word is not None:
        return float(by_word)
    # One word known and this one not: the numbers are the BMS's own, and may mean anything.
    return None if known.keys() & {_plain(text) for text in words.values()} else raw


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
