"""The bus over a real MQTT broker; the only file that imports aiomqtt.

aiomqtt has no reconnection of its own and sees a half-open link after twice its keepalive, so
each connection is a new client with a clean session: nothing said during an outage is ever sent
later, and every pattern is subscribed to on each connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable
from typing import Final

import aiomqtt
import structlog

from drivers.mqtt.addressing import Handler, Letter, Router, is_topic, split_url
from facility.clock import Clock

#: Twice this is the age at which a half-open link is given up: 16 s, under the 20 s of the design.
KEEPALIVE_S: Final = 8
CONNECT_S: Final = 5.0
#: A link that has not taken a message by then is as good as lost; the caller goes on.
PUBLISH_S: Final = 2.0
#: A goodbye that takes longer is given up; then again, for a cancellation that was swallowed.
GOODBYE_S: Final = 1.5
CLOSE_TRIES: Final = 2
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 5.0

_log = structlog.get_logger("wattkeeper.mqtt")
# aiomqtt and paho report each lost link by themselves; ours says it once.
_QUIET: Final = logging.getLogger("wattkeeper.mqtt.client")
_QUIET.setLevel(logging.CRITICAL)


class MqttBus:
    """A client that keeps itself connected; answers to `facility.ports.Bus`.

    Handlers run in the event loop, in the order of arrival. Patterns of ours that overlap may
    bring a message more than once: handlers keep the latest value or a sequence anyway.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
        user: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        will: Letter | None = None,
        birth: Letter | None = None,
        keepalive_s: int = KEEPALIVE_S,
    ) -> None:
        """Prepare a client; nothing is sent before `start`.

        Args:
            url: `mqtt://host[:port]`, or `mqtts://` for TLS (system trust unless `tls` is given).
            name: first part of the client identifier; a random suffix keeps two apart.
            clock: for how long a connection held.
            rng: jitter of the pauses, and the suffix.
            user: login at the broker.
            password: login at the broker.
            tls: context to use with `mqtts://`, e.g. with a private authority.
            will: what the broker says when we vanish.
            birth: what we say on each connection.
            keepalive_s: seconds of silence after which a ping is due, at most 10.

        Raises:
            ValueError: a bad URL or keepalive.
        """
        self.host, self.port, secure = split_url(url)
        if not 1 <= keepalive_s <= 10:
            raise ValueError("keepalive must be 1..10 s: a half-open link lives twice as long")
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._identifier = f"{name}-{rng.getrandbits(32):08x}"
        self._clock = clock
        self._rng = rng
        self._user, self._password = user, password
        self._will = (
            None
            if will is None
            else aiomqtt.Will(will.topic, will.payload, qos=will.qos, retain=will.retain)
        )
        self._birth = birth
        self._keepalive_s = keepalive_s
        self._router = Router()
        self._client: aiomqtt.Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._late: set[asyncio.Task[None]] = set()
        self.connections = 0

    @property
    def connected(self) -> bool:
        """Whether the broker accepted us and the link is not known to be lost."""
        return self._client is not None

    async def start(self) -> None:
        """Connect in the background, for ever."""
        if self._task is None:
            self._closing = False
            self._task = asyncio.create_task(self._stay_connected(), name=f"mqtt {self.host}")

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False
    ) -> bool:
        """Send now or not at all; False when there is no link or it does not take the message.

        Raises:
            ValueError: not a topic of MQTT.
        """
        if not is_topic(topic):
            raise ValueError(f"{topic!r} is not an MQTT topic")
        client = self._client
        if client is None:
            return False
        try:
            await client.publish(topic, payload, qos=qos, retain=retain, timeout=PUBLISH_S)
        except aiomqtt.MqttError:
            return False
        return True

    def subscribe(self, pattern: str, handler: Handler) -> None:
        """Deliver what falls under the pattern, on this connection and every later one."""
        self._router.add(pattern, handler)
        if self._client is not None:
            task = asyncio.create_task(self._subscribe_late(self._client, pattern))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def close(self) -> None:
        """Disconnect cleanly, so that the broker sends no will; ends within three seconds.

        A broker that never answers does not hold this up, nor does a cancellation that got lost:
        `asyncio.wait_for` of Python 3.11 swallows one that comes as its future is done.
        """
        task, self._task = self._task, None
        self._closing = True
        for _ in range(CLOSE_TRIES):
            if task is None or task.done():
                break
            task.cancel()
            # Not `await task`: a cancellation of ours must not be taken for the task's own.
            await asyncio.wait({task}, timeout=GOODBYE_S)
        else:
            if task is not None and not task.done():
                _log.warning("gave up saying goodbye", broker=f"{self.host}:{self.port}")

    def _dispatch(self, topic: str, payload: bytes, retained: bool) -> None:
        for handler in self._router.route(topic):
            try:
                handler(topic, payload, retained)
            except Exception:  # noqa: BLE001 - a bug in one handler must not cut off the others
                _log.exception("handler failed", topic=topic)

    async def _subscribe_late(self, client: aiomqtt.Client, pattern: str) -> None:
        with contextlib.suppress(aiomqtt.MqttError):  # a lost link subscribes on its return
            await client.subscribe(pattern, qos=0)

    async def _stay_connected(self) -> None:
        """Connect, listen, and come back after a growing, jittered pause."""
        pause_s, told = FIRST_PAUSE_S, False

        def up() -> None:
            nonlocal told
            if told:
                _log.info("broker is back", broker=f"{self.host}:{self.port}")
            told = False

        while not self._closing:
            began_s = self._clock.monotonic_s()
            try:
                await self._one_connection(up)
            except (aiomqtt.MqttError, OSError, ValueError) as error:
                reason = str(error)
            else:
                reason = "the connection ended"
            if not (told or self._closing):
                told = True
                _log.warning("broker lost", broker=f"{self.host}:{self.port}", reason=reason)
            if self._clock.monotonic_s() - began_s > 2.0 * LONGEST_PAUSE_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    async def _one_connection(self, up: Callable[[], None]) -> None:
        client = aiomqtt.Client(
            self.host,
            self.port,
            username=self._user,
            password=self._password,
            identifier=self._identifier,
            will=self._will,
            clean_session=True,
            keepalive=self._keepalive_s,
            timeout=CONNECT_S,
            tls_context=self._tls,
            logger=_QUIET,
        )
        logged_in = False
        try:
            await client.__aenter__()
            logged_in = True
            for pattern in self._router.patterns:
                await client.subscribe(pattern, qos=0)
            self._client = client
            self.connections += 1
            up()
            if self._birth is not None:
                birth = self._birth
                await client.publish(birth.topic, birth.payload, qos=birth.qos, retain=birth.retain)
            async for message in client.messages:
                if isinstance(message.payload, bytes):
                    self._dispatch(message.topic.value, message.payload, bool(message.retain))
        finally:
            self._client = None
            if logged_in:
                with contextlib.suppress(aiomqtt.MqttError):
                    await client.__aexit__(None, None, None)
            else:
                _abandon(client)
            # aiomqtt keeps the reason of a lost link in a future that only its iterator reads.
            lost = client._disconnected
            if lost.done() and not lost.cancelled():
                lost.exception()


def _abandon(client: aiomqtt.Client) -> None:
    """Let go of a login that has not ended: no goodbye is due, and aiomqtt would wait for one.

    Its connecting thread may still be at work; a socket that it opens later is refused there.
    """
    wire = client._client

    def refuse(*_: object) -> None:
        raise OSError("closed while connecting")

    wire.on_socket_open = refuse
    wire._sock_close()
