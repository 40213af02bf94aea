"""MQTT's rules of addressing; no client library. `Router` finds the handlers of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

Handler = Callable[[str, bytes, bool], None]

#: The longest topic that MQTT 3.1.1 can carry (section 1.5.3), bytes of UTF-8.
MAX_TOPIC: Final = 65_535


class Letter(NamedTuple):
    """A message that the bus itself sends: on connecting (birth) or in our absence (will)."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = True


def is_topic(text: str) -> bool:
    """Whether one can publish to it (MQTT 3.1.1 section 4.7.1: no wildcards, not empty)."""
    return bool(text) and not set(text) & {"+", "#", "\0"} and len(text.encode()) <= MAX_TOPIC


def is_pattern(text: str) -> bool:
    """Whether one can subscribe to it: `+` fills a level, `#` is the last level or absent."""
    if not text or "\0" in text or len(text.encode()) > MAX_TOPIC:
        return False
    levels = text.split("/")
    wild = all(level in ("+", "#") or not set(level) & {"+", "#"} for level in levels)
    return wild and "#" not in levels[:-1]


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic falls under a pattern (MQTT 3.1.1 section 4.7).

    `#` also matches its parent level; wildcards at the first level never match `$SYS` and such.
    """
    if topic.startswith("$") and pattern[:1] in ("+", "#"):
        return False
    wanted, given = pattern.split("/"), topic.split("/")
    for i, level in enumerate(wanted):
        if level == "#":
            return True
        if i >= len(given) or level not in ("+", given[i]):
            return False
    return len(wanted) == len(given)


def split_url(url: str) -> tuple[str, int, bool]:
    """Host, port and whether TLS is used, of `mqtt://host[:port]` or `mqtts://host[:port]`.

    Raises:
        ValueError: another scheme, no host, a user or a password in the address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise ValueError(f"{url!r} is not mqtt://host[:port] or mqtts://host[:port]")
    if parts.username is not None or parts.password is not None or parts.path not in ("", "/"):
        raise ValueError("a broker's address is host and port; logins are given apart from it")
    secure = parts.scheme == "mqtts"
    return parts.hostname, parts.port or (8883 if secure else 1883), secure


class Router:
    """Handlers by pattern; an exact topic costs one look-up however many there are."""

    def __init__(self) -> None:
        self._exact: dict[str, list[Handler]] = {}
        self._wild: dict[str, list[Handler]] = {}

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every pattern once, in the order of first use."""
        return (*self._exact, *self._wild)

    def add(self, pattern: str, handler: Handler) -> None:
        """Route a pattern to a handler.

        Raises:
            ValueError: not a pattern of MQTT.
        """
        if not is_pattern(pattern):
            raise ValueError(f"{pattern!r} is not an MQTT topic filter")
        table = self._exact if is_topic(pattern) else self._wild
        table.setdefault(pattern, []).append(handler)

    def route(self, topic: str) -> list[Handler]:
        """The handlers of a topic."""
        found = list(self._exact.get(topic, ()))
        for pattern, handlers in self._wild.items():
            if matches(pattern, topic):
                found.extend(handlers)
        return found
