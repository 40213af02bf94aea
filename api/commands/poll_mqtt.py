"""`wattkeeper poll` at a broker: `mqtt[s]://host[:port]/topic`, listened to for some seconds."""

from __future__ import annotations

import random
from urllib.parse import unquote, urlsplit

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.mqtt.addressing import is_topic
from drivers.physics import CheckResult
from drivers.transport import Transport
from facility.clock import Clock


def published_at(target: str) -> Address | None:
    """The broker and topic of a target; None where it is no broker's.

    One slash ends the broker; a topic that begins with one has two. A topic with `#` or `?` in its
    name is written with %23 or %3F.

    Raises:
        ValueError: no host, a login in the address, or no topic of one device.
    """
    if not target.startswith(("mqtt://", "mqtts://")):
        return None
    url = urlsplit(target)
    topic = unquote(url.path.removeprefix("/").rstrip("/"))
    if url.username is not None or url.password is not None:
        raise ValueError("a login is not for the address; name it with --auth")
    if not url.hostname or url.query:
        raise ValueError(f"{target!r} is not mqtt[s]://host[:port]/topic")
    if not is_topic(topic) or "#" in target:
        raise ValueError(f"{target!r}: {topic!r} is not the topic of one device")
    secure = url.scheme == "mqtts"
    port = url.port or (8883 if secure else 1883)
    return Address("mqtt", url.hostname, port, topic=topic, secure=secure)


def listening(address: Address, credentials: Credentials, clock: Clock) -> Transport:
    """What the device at the topic says, until the transport is closed."""
    # The client of MQTT loads when somebody listens.
    from drivers.mqtt.bus import MqttBus
    from drivers.mqtt.transport import PublishedTransport

    host = f"[{address.host}]" if ":" in address.host else address.host
    url = f"{'mqtts' if address.secure else 'mqtt'}://{host}:{address.port}"
    login = credentials if credentials.kind == "password" else None
    bus = MqttBus(
        url,
        name="wattkeeper-poll",
        clock=clock,
        rng=random.Random(random.SystemRandom().getrandbits(64)),
        user=None if login is None else login.user,
        password=None if login is None else login.secret,
    )
    return PublishedTransport(bus, clock, url, address.host, address.topic)


def kept_only(wire: Transport) -> tuple[CheckResult, ...]:
    """A failed check where nothing but what the broker kept was heard: nobody knows how old."""
    from drivers.mqtt.transport import PublishedTransport

    topics = sorted(wire.kept) if isinstance(wire, PublishedTransport) else []
    if not topics:
        return ()
    detail = f"only what the broker kept, of unknown age: {', '.join(topics)}"
    return (CheckResult("the device speaks", "total", False, detail),)
