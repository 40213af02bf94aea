"""What controllers and agents say to each other: topics, messages, strict parsing.

The protocol in prose is docs/agent-protocol.md. Commands are parsed by the letter (an unknown
key may carry a meaning that we would miss, so it is refused); statuses and acks are read leniently
(what is not understood is ignored, what is wrong is None), because they only inform.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from drivers.mqtt.addressing import Letter

VERSION: Final = 1
MAX_COMMAND_BYTES: Final = 4096
MAX_REPORT_BYTES: Final = 65_536
MAX_INTEGER: Final = 2**53
ONLINE: Final = b"online"
OFFLINE: Final = b"offline"

#: Why a command was not carried out, as agents word it.
Refusal = Literal[
    "bad_message",  # not JSON, too long, a key missing, unknown, or out of its range
    "bad_version",  # another version of the protocol
    "stale_epoch",  # an older controller
    "wrong_owner",  # this epoch belongs to somebody else
    "unknown_nonce",  # quotes nothing that this run of the agent has said since the last release
    "too_old",  # the nonce quoted is older than the deadline
    "stale_sequence",  # not newer than the last command of this epoch
    "not_allowed",  # this node has no hook for what was asked
    "no_lease",  # the sender holds no lease now
    "gpu_fault",  # accepted, but no GPU took it
]

_WORD: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")
#: Owners are often `host:pid`.
_OWNER: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:@/\-]{0,127}$")
_NONCE: Final = re.compile(r"^[0-9a-f]{8,64}$")


@dataclass(frozen=True, slots=True)
class Topics:
    """The four topics of one node."""

    status: str
    availability: str
    command: str
    ack: str

    @classmethod
    def of(cls, prefix: str, node: str) -> Topics:
        """`<prefix>/<node>/status` and so on."""
        base = f"{prefix}/{node}"
        return cls(f"{base}/status", f"{base}/availability", f"{base}/command", f"{base}/ack")

    @property
    def birth(self) -> Letter:
        """What an agent says on each connection."""
        return Letter(self.availability, ONLINE)

    @property
    def will(self) -> Letter:
        """What the broker says when an agent vanishes."""
        return Letter(self.availability, OFFLINE)


@dataclass(frozen=True, slots=True)
class Header:
    """Who commands, and what they last heard.

    Attributes:
        owner: name of the controller, one per epoch.
        epoch: of the hall's controller lease; rises with each new owner.
        sequence: of caps and releases: rises within an epoch; of leases: informative.
        nonce: the newest that the sender has from the agent's status.
    """

    owner: str
    epoch: int
    sequence: int
    nonce: str


@dataclass(frozen=True, slots=True)
class LeaseMessage:
    """Take or renew the lease; times in s, counted from when the agent made the nonce.

    Attributes:
        ttl_s: how long the lease lives.
        hold_s: how long caps are held once it has ended; 0 drops to the fallback at once.
        spread_s: the random delay after the hold is drawn from 0..spread_s.
        fallback_w: W per GPU to end at; None leaves the agent's own.
    """

    header: Header
    ttl_s: float
    hold_s: float
    spread_s: float
    fallback_w: float | None


@dataclass(frozen=True, slots=True)
class CapMessage:
    """Set every GPU of the node to `cap_w`; void once the nonce is `deadline_s` old."""

    header: Header
    cap_w: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """Give the node back: restore the limits found before the first cap, end the lease."""

    header: Header
    deadline_s: float


@dataclass(frozen=True, slots=True)
class PowerOffMessage:
    """Run the site's power-off hook on the node; the last thing before a breaker opens."""

    header: Header
    deadline_s: float


Message = LeaseMessage | CapMessage | ReleaseMessage | PowerOffMessage


def is_owner(text: str) -> bool:
    """Whether agents accept it as the name of an owner."""
    return _OWNER.fullmatch(text) is not None


class BadMessage(ValueError):
    """A command that is not one.

    Attributes:
        refusal: `bad_message` or `bad_version`.
        kind: its `type`, where that could be read.
        header: sender and sequence where they could be read, so that the refusal can be sent.
    """

    def __init__(
        self,
        detail: str,
        refusal: Refusal = "bad_message",
        header: Header | None = None,
        kind: str = "",
    ) -> None:
        super().__init__(detail)
        self.refusal: Refusal = refusal
        self.header = header
        self.kind = kind


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def load_object(payload: bytes, limit: int) -> dict[str, Any]:
    """A JSON object of at most `limit` bytes, by the letter of RFC 8259.

    Raises:
        ValueError: anything else.
    """
    if len(payload) > limit:
        raise ValueError(f"longer than {limit} bytes")
    try:
        found = json.loads(
            payload.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_twins
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


class _Keys:
    """Takes keys out of an object, each by its type and range, and tells what is left."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self._left = set(raw)

    def _take(self, key: str) -> Any:
        if key not in self._raw:
            raise ValueError(f"{key}: missing")
        self._left.discard(key)
        return self._raw[key]

    def number(self, key: str, low: float, high: float) -> float:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{key}: not a number")
        if not low <= value <= high:  # also refuses what only overflowed into infinity
            raise ValueError(f"{key}: outside {low:g}..{high:g}")
        return float(value)

    def optional_number(self, key: str, low: float, high: float) -> float | None:
        if self._raw.get(key) is None:
            self._left.discard(key)
            return None
        return self.number(key, low, high)

    def whole(self, key: str) -> int:
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{key}: not a whole number")
        if not 0 <= value <= MAX_INTEGER:
            raise ValueError(f"{key}: outside 0..2^53")
        return value

    def text(self, key: str, form: re.Pattern[str]) -> str:
        value = self._take(key)
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise ValueError(f"{key}: not of the form {form.pattern}")
        return value

    def nothing_left(self) -> None:
        if self._left:
            raise ValueError(f"{min(self._left)[:64]}: unknown key")


#: The widest that a message may ask for: W per GPU, s.
MAX_CAP_W: Final = 10_000.0
MAX_TTL_S: Final = 60.0
MAX_HOLD_S: Final = 86_400.0
MAX_SPREAD_S: Final = 86_400.0
MAX_DEADLINE_S: Final = 60.0


def parse_command(payload: bytes) -> Message:
    """Read what came on a node's command topic.

    Raises:
        BadMessage: not a command of this version, with the reason.
    """
    header: Header | None = None
    kind = ""
    try:
        raw = load_object(payload, MAX_COMMAND_BYTES)
        keys = _Keys(raw)
        version = keys.whole("v")
        kind = keys.text("type", _WORD)
        header = Header(
            keys.text("owner", _OWNER),
            keys.whole("epoch"),
            keys.whole("sequence"),
            keys.text("nonce", _NONCE),
        )
        if version != VERSION:
            detail = f"v: this agent speaks version {VERSION}"
            raise BadMessage(detail, "bad_version", header, kind)
        message = _body(kind, header, keys)
        keys.nothing_left()
    except BadMessage:
        raise
    except ValueError as error:
        raise BadMessage(str(error), header=header, kind=kind) from None
    return message


def _body(kind: str, header: Header, keys: _Keys) -> Message:
    if kind == "lease":
        return LeaseMessage(
            header,
            keys.number("ttl_s", 1.0, MAX_TTL_S),
            keys.number("hold_s", 0.0, MAX_HOLD_S),
            keys.number("spread_s", 0.0, MAX_SPREAD_S),
            keys.optional_number("fallback_w", 1.0, MAX_CAP_W),
        )
    if kind == "cap":
        return CapMessage(
            header,
            keys.number("cap_w", 1.0, MAX_CAP_W),
            keys.number("deadline_s", 0.1, MAX_DEADLINE_S),
        )
    if kind == "release":
        return ReleaseMessage(header, keys.number("deadline_s", 0.1, MAX_DEADLINE_S))
    if kind == "power_off":
        return PowerOffMessage(header, keys.number("deadline_s", 0.1, MAX_DEADLINE_S))
    raise ValueError("type: not lease, cap, release or power_off")


def kind_of(message: Message) -> str:
    """The message's `type` on the wire."""
    if isinstance(message, LeaseMessage):
        return "lease"
    if isinstance(message, PowerOffMessage):
        return "power_off"
    return "cap" if isinstance(message, CapMessage) else "release"


def command_bytes(message: Message) -> bytes:
    """A command as it goes over the bus."""
    head = message.header
    body: dict[str, Any] = {
        "v": VERSION,
        "type": kind_of(message),
        "owner": head.owner,
        "epoch": head.epoch,
        "sequence": head.sequence,
        "nonce": head.nonce,
    }
    if isinstance(message, LeaseMessage):
        body |= {"ttl_s": message.ttl_s, "hold_s": message.hold_s}
        body |= {"spread_s": message.spread_s, "fallback_w": message.fallback_w}
    elif isinstance(message, CapMessage):
        body |= {"cap_w": message.cap_w, "deadline_s": message.deadline_s}
    else:
        body |= {"deadline_s": message.deadline_s}
    return dump(body)


def dump(body: Mapping[str, Any]) -> bytes:
    """Compact JSON; never NaN or infinity.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def number_or_none(value: object) -> float | None:
    """A finite number, or None for everything else (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
