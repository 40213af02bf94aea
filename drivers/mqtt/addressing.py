"""MQTT's rules of addressing; no client library. `Router` finds the handlers of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

Handler = Callable[[str, bytes, bool], None]

#: The longest topic that MQTT 3.1.1 can carry (section 1.5.3), bytes of UTF-8.
MAX_TOPIC: Final = 65_535
#: Topics whose handlers are remembered; a flood of new topics starts the memory afresh.
MOST_ROUTES: Final = 50_000
#: Longer topics, characters, are looked up each time: 50,000 of 64 KiB would be 3 GiB.
LONGEST_REMEMBERED: Final = 256


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


def below(base: str, topic: str) -> str:
    """A topic below another; `..` at its front goes up a level, an empty one is the base itself."""
    levels, inner = base.split("/"), topic.split("/") if topic else []
    while inner and inner[0] == "..":
        inner.pop(0)
        levels = levels[:-1]
    return "/".join((*levels, *inner))


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
    """Handlers by pattern; a topic heard before costs one look-up however many there are."""

    def __init__(self) -> None:
        self._patterns: dict[str, list[Handler]] = {}
        self._wild = _Level()
        self._known: dict[str, tuple[Handler, ...]] = {}

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every pattern once, in the order of first use."""
        return tuple(self._patterns)

    def add(self, pattern: str, handler: Handler) -> None:
        """Route a pattern to a handler.

        Raises:
            ValueError: not a pattern of MQTT.
        """
        if not is_pattern(pattern):
            raise ValueError(f"{pattern!r} is not an MQTT topic filter")
        handlers = self._patterns.setdefault(pattern, [])
        if not handlers and not is_topic(pattern):
            self._wild.add(pattern.split("/"), pattern)
        handlers.append(handler)
        self._known.clear()

    def route(self, topic: str) -> Sequence[Handler]:
        """The handlers of a topic: of the topic itself, then of patterns that it falls under."""
        known = self._known.get(topic)
        if known is None:
            found = list(self._patterns.get(topic, ()))
            for pattern in self._wild.find(topic.split("/"), wild_first=topic[:1] != "$"):
                found.extend(self._patterns[pattern])
            known = tuple(found)
            if len(topic) > LONGEST_REMEMBERED:
                return known
            if len(self._known) >= MOST_ROUTES:
                self._known.clear()
            self._known[topic] = known
        return known


class _Level:
    """One level of the patterns with wildcards: what may stand there, and what comes below."""

    __slots__ = ("_below", "_ends", "_rest")

    def __init__(self) -> None:
        self._below: dict[str, _Level] = {}
        self._ends: str | None = None
        self._rest: str | None = None

    def add(self, levels: Sequence[str], pattern: str) -> None:
        """Keep a pattern below this level."""
        if not levels:
            self._ends = pattern
        elif levels[0] == "#":
            self._rest = pattern
        else:
            self._below.setdefault(levels[0], _Level()).add(levels[1:], pattern)

    def find(self, levels: Sequence[str], *, wild_first: bool = True) -> Iterator[str]:
        """The patterns that a topic with these levels left falls under."""
        if self._rest is not None and wild_first:
            yield self._rest
        if not levels:
            if self._ends is not None:
                yield self._ends
            return
        for name in (levels[0], "+") if wild_first else (levels[0],):
            below = self._below.get(name)
            if below is not None:
                yield from below.find(levels[1:])
