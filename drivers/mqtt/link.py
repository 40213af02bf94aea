"""One connection to a broker, from login to loss; the only file that imports aiomqtt.

Messages are handed over as they come off the wire. aiomqtt's own queue is not used: unbounded it
eats the memory while we are busy, bounded it drops the newest message although the broker was told
that it arrived (empicano/aiomqtt#250).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiomqtt
from aiomqtt.exceptions import MqttConnectError

from drivers.mqtt.addressing import Handler, Letter

CONNECT_S: Final = 5.0
#: A broker may send everything it keeps before it says that we are subscribed: 50,000 points of a
#: BMS take 10 s. A link that is lost meanwhile is known to be by its keepalive.
SUBSCRIBE_S: Final = 60.0
#: A link that has not taken a message by then is as good as lost; the caller goes on.
PUBLISH_S: Final = 2.0
#: Patterns in one SUBSCRIBE: a round trip each would keep a large site deaf for seconds.
BATCH: Final = 64
#: What a SUBACK says of a pattern that the broker does not let us have (MQTT 3.1.1, 3.9.3).
REFUSED: Final = 0x80

# aiomqtt and paho report each lost link by themselves; the bus says it once.
_QUIET: Final = logging.getLogger("wattkeeper.mqtt.client")
_QUIET.setLevel(logging.CRITICAL)


class LinkError(Exception):
    """No connection, or none any more; the text says why, `refused` whether the broker said no."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


@dataclass(frozen=True)
class Access:
    """How a broker is reached.

    Attributes:
        tls: for `mqtts://`; None for a plain connection.
        keepalive_s: seconds of silence after which a ping is due; one without an answer within
            the same time again ends the link.
        will: what the broker says when we vanish.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    keepalive_s: int = 8
    will: Letter | None = None


class Link:
    """One login; a new one is made for the next.

    Attributes:
        session_present: the broker kept a session of ours although we asked for a clean one.
    """

    def __init__(self, access: Access, identifier: str, take: Handler) -> None:
        """Prepare; `take(topic, payload, retained)` gets each message and must not raise."""
        will = access.will
        self.session_present = False
        self._open = False
        self._client = aiomqtt.Client(
            access.host,
            access.port,
            username=access.user,
            password=access.password,
            identifier=identifier,
            will=None
            if will is None
            else aiomqtt.Will(will.topic, will.payload, qos=will.qos, retain=will.retain),
            clean_session=True,
            keepalive=access.keepalive_s,
            timeout=CONNECT_S,
            tls_context=access.tls,
            logger=_QUIET,
        )
        self._client._client.on_message = _taker(take)
        self._hear_session()

    async def open(self) -> None:
        """Log in.

        Raises:
            LinkError: the broker cannot be reached, does not answer, or refuses.
        """
        try:
            await self._client.__aenter__()
        except MqttConnectError as error:
            raise LinkError(str(error), refused=True) from None
        except (aiomqtt.MqttError, OSError, ValueError) as error:
            raise LinkError(str(error)) from None
        self._open = True

    async def subscribe(self, patterns: Sequence[str]) -> list[str]:
        """Subscribe to all of them; returns those that the broker refused.

        Raises:
            LinkError: the link was lost, or the broker does not answer.
        """
        refused: list[str] = []
        for i in range(0, len(patterns), BATCH):
            batch = patterns[i : i + BATCH]
            codes = await self._subscribed(batch)
            told = [code if isinstance(code, int) else code.value for code in codes]
            refused += [p for p, code in zip(batch, told, strict=False) if code >= REFUSED]
        return refused

    async def _subscribed(self, batch: Sequence[str]) -> Sequence[Any]:
        asked = asyncio.ensure_future(
            self._client.subscribe([(pattern, 0) for pattern in batch], timeout=SUBSCRIBE_S)
        )
        try:
            either: set[asyncio.Future[Any]] = {asked, self._client._disconnected}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise LinkError("lost while subscribing")
            return asked.result()
        except (aiomqtt.MqttError, ValueError) as error:
            raise LinkError(str(error)) from None
        finally:
            asked.cancel()

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> bool:
        """Send; False when the link does not take it in time."""
        try:
            await self._client.publish(topic, payload, qos=qos, retain=retain, timeout=PUBLISH_S)
        except aiomqtt.MqttError:
            return False
        return True

    async def lost(self, within_s: float | None) -> bool:
        """Wait for the end of the link; False when it still stands after `within_s`.

        Raises:
            LinkError: it ended, and why.
        """
        ended = self._client._disconnected
        done, _ = await asyncio.wait({ended}, timeout=within_s)
        if not done:
            return False
        error = ended.exception()
        if error is not None:
            raise LinkError(str(error))
        return True

    async def close(self) -> None:
        """Say goodbye if there is somebody to say it to; nothing is left open."""
        if self._open:
            with contextlib.suppress(aiomqtt.MqttError):
                await self._client.__aexit__(None, None, None)
        else:
            self._abandon()
        # aiomqtt keeps the reason of a lost link in a future; unread it is complained about.
        lost = self._client._disconnected
        if lost.done() and not lost.cancelled():
            lost.exception()

    def _abandon(self) -> None:
        """Let go of a login that has not ended: no goodbye is due, and aiomqtt would wait for one.

        Its connecting thread may still be at work; a socket that it opens later is refused there.
        """
        wire = self._client._client

        def refuse(*_: object) -> None:
            raise OSError("closed while connecting")

        wire.on_socket_open = refuse
        wire._sock_close()

    def _hear_session(self) -> None:
        wire = self._client._client
        told = wire.on_connect

        def on_connect(client: Any, data: Any, flags: Any, *rest: Any) -> None:
            self.session_present = bool(flags.session_present)
            if told is not None:
                told(client, data, flags, *rest)

        wire.on_connect = on_connect


def _taker(take: Handler) -> Callable[[Any, Any, Any], None]:
    def on_message(_client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:  # no broker may forward one; nobody can have subscribed to it
            return
        take(topic, message.payload, message.retain)

    return on_message
