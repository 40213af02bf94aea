"""An MQTT broker inside the simulator's process, on a loopback port; the only amqtt import.

It lives in the caller's event loop. A stopped broker starts again on the port it had, so that
an outage of the broker can be played.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from amqtt.broker import Broker

_HOST: Final = "127.0.0.1"
_PLUGINS: Final[dict[str, Any]] = {
    "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
}


class _Subscriptions(dict[str, Any]):
    """Filter -> sessions; may change while somebody goes through it.

    amqtt 0.12 awaits in the middle of such walks: when many clients come back at once, a plain
    dict raises, and the client being served is left connected and deaf.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.keys()))

    def items(self) -> Any:
        return dict(super().items()).items()


class _Broker(Broker):  # type: ignore[misc]
    """amqtt's broker without two faults of its 0.12 (see also `_Subscriptions`)."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._subscriptions = _Subscriptions()

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Any
    ) -> None:
        """Send a client what is retained under a filter of its own.

        On each connection amqtt goes through the filters of all clients, so that a client would
        get messages that it never asked for, and those that it did ask for twice.
        """
        holders = self._subscriptions.get(subscription[0], ())
        if any(holder.client_id == session.client_id for holder, _ in holders):
            await super()._publish_retained_messages_for_subscription(subscription, session)


class EmbeddedBroker:
    """An amqtt broker.

    Attributes:
        port: 0 until the first start; kept over later ones.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._broker: Broker | None = None
        # amqtt words every packet and every lost client; the simulator's log is for people.
        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    @property
    def address(self) -> str:
        """`mqtt://127.0.0.1:PORT`."""
        return f"mqtt://{_HOST}:{self.port}"

    async def start(self) -> str:
        """Listen; returns the address."""
        if self._broker is None:
            broker = _Broker(
                {
                    "listeners": {"default": {"type": "tcp", "bind": f"{_HOST}:{self.port}"}},
                    "plugins": _PLUGINS,
                }
            )
            await broker.start()
            self._broker = broker
            self.port = _port_of(broker)
        return self.address

    async def stop(self) -> None:
        """Cut off every client and close the port; what was retained is lost."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.shutdown()


def _port_of(broker: Broker) -> int:
    """The port that the system chose; amqtt has no public way to ask."""
    server = broker._servers["default"].instance
    return int(server.sockets[0].getsockname()[1])
