"""The bus over a real MQTT broker: a client that keeps itself connected.

Each connection is a new client with a clean session: nothing said during an outage is ever sent
later, every pattern is subscribed to on each connection, and no subscription of an earlier life
of this program comes back.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Final

import structlog

from drivers.mqtt.addressing import Handler, Letter, Router, is_topic, split_url
from drivers.mqtt.link import Access, Link, LinkError
from drivers.mqtt.retry import Retry
from facility.clock import Clock

#: Twice this is the age at which a half-open link is given up: 16 s, under the 20 s of the design.
KEEPALIVE_S: Final = 8
#: A goodbye that takes longer is given up; then again, for a cancellation that was swallowed.
GOODBYE_S: Final = 1.5
CLOSE_TRIES: Final = 2
#: Each reconnection that brings no word either makes the next one wait twice as long, up to this.
LONGEST_SILENCES: Final = 16
#: A handler that fails does so with each message; the log is told so seldom.
FAILURE_LOG_S: Final = 60.0

_log = structlog.get_logger("wattkeeper.mqtt")


class MqttBus:
    """A client that keeps itself connected; answers to `facility.ports.Bus`.

    Handlers run in the event loop, in the order of arrival, as messages come off the wire: nothing
    is queued. Patterns of ours that overlap may bring a message more than once: handlers keep the
    latest value or a sequence anyway.

    Attributes:
        connections: logins so far.
        refused: patterns that the broker does not let us have.
        silence_s: reconnect when not one live message came for so long on a link that says it is
            well; None for never. Only where something is known to speak all the time.
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
        identifier: str | None = None,
        silence_s: float | None = None,
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
            identifier: the whole client identifier, where the broker knows us by it.
            silence_s: see the attribute.

        Raises:
            ValueError: a bad URL or keepalive.
        """
        host, port, secure = split_url(url)
        if not 1 <= keepalive_s <= 10:
            raise ValueError("keepalive must be 1..10 s: a half-open link lives twice as long")
        context = (tls or ssl.create_default_context()) if secure else None
        self._access = Access(host, port, context, user, password, keepalive_s, will)
        self._broker = f"{host}:{port}"
        self._name, self._fixed = name, identifier
        self._clock = clock
        self._rng = rng
        self._identifier = identifier or self._fresh_identifier()
        self._birth = birth
        self._router = Router()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._late: list[str] = []
        self._subscribing: asyncio.Task[None] | None = None
        self._heard_s = 0.0
        self._silences = 0
        self._told = False
        self._failed_s = float("-inf")
        self._failures = 0
        self.connections = 0
        self.refused: set[str] = set()
        self.silence_s = silence_s

    @property
    def connected(self) -> bool:
        """Whether the broker accepted us and the link is not known to be lost."""
        return self._link is not None

    async def start(self) -> None:
        """Connect in the background, for ever."""
        if self._task is None:
            self._closing = False
            self._task = asyncio.create_task(self._stay_connected(), name=f"mqtt {self._broker}")

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False
    ) -> bool:
        """Send now or not at all; False when there is no link or it does not take the message.

        Raises:
            ValueError: not a topic of MQTT.
        """
        if not is_topic(topic):
            raise ValueError(f"{topic!r} is not an MQTT topic")
        link = self._link
        return link is not None and await link.publish(topic, payload, qos, retain)

    def subscribe(self, pattern: str, handler: Handler) -> None:
        """Deliver what falls under the pattern, on this connection and every later one."""
        self._router.add(pattern, handler)
        if self._link is not None:
            self._late.append(pattern)
            if self._subscribing is None or self._subscribing.done():
                self._subscribing = asyncio.create_task(self._subscribe_late(self._link))

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
                _log.warning("gave up saying goodbye", broker=self._broker)

    def _fresh_identifier(self) -> str:
        return f"{self._name}-{self._rng.getrandbits(32):08x}"

    def _dispatch(self, topic: str, payload: bytes, retained: bool) -> None:
        if not retained:
            self._heard_s = self._clock.monotonic_s()
            if self._silences:
                self._silences, self._told = 0, False
                _log.info("devices are heard again", broker=self._broker)
        for handler in self._router.route(topic):
            try:
                handler(topic, payload, retained)
            except Exception:  # noqa: BLE001 - a bug in one handler must not cut off the others
                self._note_failure(topic)

    def _note_failure(self, topic: str) -> None:
        self._failures += 1
        now_s = self._clock.monotonic_s()
        if now_s - self._failed_s >= FAILURE_LOG_S:
            self._failed_s = now_s
            _log.exception("handler failed", topic=topic[:200], times=self._failures)
            self._failures = 0

    async def _subscribe_late(self, link: Link) -> None:
        """Subscribe to what came since the login; what a lost link misses, the next one brings."""
        while self._late and link is self._link:
            patterns, self._late = self._late, []
            try:
                self._note_refused(await link.subscribe(patterns))
            except LinkError:
                return

    def _note_refused(self, patterns: list[str]) -> None:
        fresh = sorted(set(patterns) - self.refused)
        self.refused.update(fresh)
        if fresh:
            _log.warning(
                "broker refuses topics",
                broker=self._broker,
                topics=fresh[:10],
                more=max(len(fresh) - 10, 0),
                hint="its access rules do not let this login read them",
            )

    async def _stay_connected(self) -> None:
        """Connect, listen, and come back after a growing, jittered pause."""
        retry, contested = Retry(self._rng), False
        while not self._closing:
            link = Link(self._access, self._identifier, self._dispatch)
            began_s: float | None = None
            refused, quiet = False, False
            try:
                await link.open()
                began_s = self._clock.monotonic_s()
                quiet = await self._one_connection(link)
                reason = "nothing is heard on it" if quiet else "the connection ended"
            except LinkError as error:
                reason, refused = str(error), error.refused
            finally:
                self._link = None
                await link.close()
            if not (self._told or self._closing):
                self._told = True
                _log.warning("broker lost", broker=self._broker, reason=reason)
            held_s = None if began_s is None or quiet else self._clock.monotonic_s() - began_s
            pause_s = retry.after(held_s=held_s, refused=refused)
            if retry.contested and not contested:
                self._give_way()
            contested = retry.contested
            await asyncio.sleep(pause_s)

    def _give_way(self) -> None:
        """Stop throwing another client out, and being thrown out by it."""
        if self._fixed is None:
            self._identifier = self._fresh_identifier()
        _log.error(
            "another client seems to use our identifier",
            broker=self._broker,
            identifier=self._fixed or "ours, replaced by a new one",
            hint="each login is cut off soon after it is accepted; two programs with one client "
            "identifier throw each other out",
        )

    async def _one_connection(self, link: Link) -> bool:
        """Listen on an open link until it ends; True when it was given up as too quiet.

        Raises:
            LinkError: it was lost.
        """
        if link.session_present:
            _log.warning(
                "broker kept an old session",
                broker=self._broker,
                hint="we asked for a clean one; every topic is subscribed to anew",
            )
        self.refused.clear()
        self._late.clear()
        self._note_refused(await link.subscribe(self._router.patterns))
        self._link = link
        self.connections += 1
        if self._told and not self._silences:
            _log.info("broker is back", broker=self._broker)
        self._told = self._silences > 0
        if self._birth is not None:
            birth = self._birth
            await link.publish(birth.topic, birth.payload, birth.qos, birth.retain)
        self._heard_s = self._clock.monotonic_s()
        while not await link.lost(self._left_s()):
            left_s = self._left_s()
            if left_s is not None and left_s <= 0.0:
                self._silences += 1
                return True
        return False

    def _left_s(self) -> float | None:
        """How much longer the silence may last, seconds; None for ever."""
        if self.silence_s is None or not self._router.patterns:
            return None
        allowed_s: float = self.silence_s * min(2**self._silences, LONGEST_SILENCES)
        return max(self._heard_s + allowed_s - self._clock.monotonic_s(), 0.0)
