"""A bus in memory, for virtual time and tests; answers to `facility.ports.Bus`.

`MemoryBus` is a client of a `MemoryBroker` in the same event loop.
"""

from __future__ import annotations

import asyncio

from drivers.mqtt.addressing import Handler, Letter, Router, is_topic, matches


class MemoryBroker:
    """A broker in memory: retained messages, wills, and an outage that tests can order.

    Messages are delivered by `call_soon`, in the order sent, never inside `publish`.
    """

    def __init__(self) -> None:
        self.up = True
        self._retained: dict[str, bytes] = {}
        self._clients: list[MemoryBus] = []

    def stop(self) -> None:
        """Go away: clients are cut off (no wills are sent) and retained messages are lost."""
        self.up = False
        self._retained.clear()
        for client in self._clients:
            client.connected = False

    def start(self) -> None:
        """Come back: every client connects and subscribes anew."""
        self.up = True
        for client in list(self._clients):
            client.join()

    def accept(self, client: MemoryBus) -> None:
        """Let a client in."""
        if client not in self._clients:
            self._clients.append(client)

    def drop(self, client: MemoryBus) -> None:
        """Forget a client."""
        if client in self._clients:
            self._clients.remove(client)

    def send(self, topic: str, payload: bytes, retain: bool) -> None:
        """Pass a message to every client connected now."""
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        for client in list(self._clients):
            client.deliver(topic, payload, False)

    def recall(self, client: MemoryBus, pattern: str) -> None:
        """Send a new subscriber what was retained."""
        for topic, payload in list(self._retained.items()):
            if matches(pattern, topic):
                client.deliver(topic, payload, True)


class MemoryBus:
    """One client of a `MemoryBroker`.

    Attributes:
        connected: whether the broker can be reached now.
    """

    def __init__(
        self,
        broker: MemoryBroker | None = None,
        *,
        will: Letter | None = None,
        birth: Letter | None = None,
    ) -> None:
        self.broker = broker or MemoryBroker()
        self.connected = False
        self._started = False
        self._router = Router()
        self._will = will
        self._birth = birth

    async def start(self) -> None:
        """Connect, now or when the broker comes back."""
        self._started = True
        self.broker.accept(self)
        self.join()

    def join(self) -> None:
        """Connect if the broker is up; send the birth message, subscribe to every pattern."""
        if not self.broker.up or not self._started or self.connected:
            return
        self.connected = True
        for pattern in self._router.patterns:
            self.broker.recall(self, pattern)
        if self._birth is not None:
            self.broker.send(self._birth.topic, self._birth.payload, self._birth.retain)

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False
    ) -> bool:
        """Send; False when cut off. `qos` makes no difference in memory.

        Raises:
            ValueError: not a topic of MQTT.
        """
        if not is_topic(topic):
            raise ValueError(f"{topic!r} is not an MQTT topic")
        if not self.connected:
            return False
        self.broker.send(topic, payload, retain)
        return True

    def subscribe(self, pattern: str, handler: Handler) -> None:
        """Deliver what falls under the pattern; retained messages come first."""
        self._router.add(pattern, handler)
        if self.connected:
            self.broker.recall(self, pattern)

    def deliver(self, topic: str, payload: bytes, retained: bool) -> None:
        """Hand a message to the handlers, soon."""
        if self.connected and self._router.route(topic):
            asyncio.get_running_loop().call_soon(self._dispatch, topic, payload, retained)

    def _dispatch(self, topic: str, payload: bytes, retained: bool) -> None:
        if self._started:
            for handler in self._router.route(topic):
                handler(topic, payload, retained)

    def sever(self) -> None:
        """Die without a word, as a killed process does: the broker sends the will."""
        was_connected, self.connected, self._started = self.connected, False, False
        self.broker.drop(self)
        if was_connected and self._will is not None:
            self.broker.send(self._will.topic, self._will.payload, self._will.retain)

    async def close(self) -> None:
        """Disconnect cleanly: no will is sent."""
        self.connected, self._started = False, False
        self.broker.drop(self)
