"""The newest message of each topic that somebody looks at, and nothing else.

One place per pattern, overwritten by each message: a topic that chatters costs no memory and
pushes no other out, and a message that nobody looked at before the next came is never parsed.
"""

from __future__ import annotations

import json
from typing import Any, Final

import structlog

from facility.clock import Clock
from facility.ports import Bus

#: No meter has more to say; a longer message is noted and not kept.
MAX_BYTES: Final = 65_536
#: What all messages of a broker together may weigh.
MOST_BYTES: Final = 64 * 1024 * 1024
#: What a parsed message is where it is no JSON, or says NaN or infinity, which JSON has not.
NOT_JSON: Final = object()

_log = structlog.get_logger("wattkeeper.mqtt")
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: NOT_JSON)
_UNPARSED: Final = object()


class Message:
    """One message.

    Attributes:
        topic: that it came on.
        payload: None when it was too long to be kept.
        retained: the broker kept it for us: from nobody knows when.
        received_ms, received_s: UTC and monotonic.
    """

    __slots__ = ("_body", "payload", "received_ms", "received_s", "retained", "topic")

    def __init__(
        self, topic: str, payload: bytes | None, retained: bool, received_ms: int, received_s: float
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.retained = retained
        self.received_ms, self.received_s = received_ms, received_s
        self._body: Any = _UNPARSED

    @property
    def text(self) -> str | None:
        """The payload as UTF-8; None when it is none."""
        try:
            return None if self.payload is None else self.payload.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @property
    def body(self) -> Any:
        """The payload as JSON, parsed once; `NOT_JSON` when it is none."""
        if self._body is _UNPARSED:
            text = self.text
            try:
                self._body = NOT_JSON if text is None else _DECODER.decode(text)
            except (ValueError, RecursionError):
                self._body = NOT_JSON
        return self._body


class Slot:
    """What a pattern brought last.

    Attributes:
        newest: None until something came. What was retained never takes the place of what was
            heard live: it comes again with each subscription, and is no news.
        rival_s: when two topics last spoke by turns under one pattern (`+`), monotonic.
    """

    __slots__ = ("_latest", "newest", "rival_s")

    def __init__(self, latest: Latest) -> None:
        self._latest = latest
        self.newest: Message | None = None
        self.rival_s = float("-inf")

    def take(self, topic: str, payload: bytes, retained: bool) -> None:
        """Keep a message; a handler of the bus."""
        last, latest = self.newest, self._latest
        if retained and last is not None and not last.retained:
            return
        now_s = latest.clock.monotonic_s()
        kept = latest.weigh(topic, payload, last)
        if last is not None and last.topic != topic:
            self.rival_s = now_s
        self.newest = Message(topic, kept, retained, latest.clock.utc_ms(), now_s)


class Latest:
    """The slots of one bus.

    Attributes:
        bytes: what the messages kept weigh together.
        too_long: messages that were not kept for their length, or because there was no room.
    """

    def __init__(self, bus: Bus, clock: Clock, most_bytes: int = MOST_BYTES) -> None:
        """Take the bus that brings the messages; it is started by its owner."""
        self.clock = clock
        self._bus = bus
        self._most_bytes = most_bytes
        self._slots: dict[str, Slot] = {}
        self.bytes = 0
        self.too_long = 0

    def watch(self, pattern: str) -> Slot:
        """The slot of a pattern, shared by all who watch it.

        Raises:
            ValueError: not a pattern of MQTT.
        """
        slot = self._slots.get(pattern)
        if slot is None:
            slot = Slot(self)
            self._bus.subscribe(pattern, slot.take)
            self._slots[pattern] = slot
        return slot

    def weigh(self, topic: str, payload: bytes, last: Message | None) -> bytes | None:
        """The payload if there is room for it in place of the last one; None if there is none."""
        freed = 0 if last is None or last.payload is None else len(last.payload)
        size = len(payload)
        if size <= MAX_BYTES and self.bytes - freed + size <= self._most_bytes:
            self.bytes += size - freed
            return payload
        self.bytes -= freed
        self.too_long += 1
        if self.too_long == 1:
            _log.warning("message too long to be kept", topic=topic[:200], bytes=size)
        return None
