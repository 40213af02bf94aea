"""An `.snmprec` file as an agent: `OID|tag|value`, one variable a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivers.profile.binding import At, Places, SnmpAt
from drivers.profile.codec import Answer, Raw
from drivers.snmp.walk import Walked
from drivers.transport import FOREVER, WriteReply
from facility.points import Flaw

Oid = tuple[int, ...]


def _answer(tag: str, text: str) -> Answer:
    """A value as our SNMP wire hands it over: a NULL is no number, an OID is a text."""
    if tag == "4x":
        return bytes.fromhex(text)
    if tag == "64x":
        return bytes.fromhex(text)
    if tag in ("4", "64"):
        return text.encode()
    if tag == "6":
        return text.lstrip(".")
    if tag == "5":
        return Flaw.UNDECODABLE
    return int(text)


class Recording:
    """Implements `drivers.transport.Transport` on a file; it answers at once and is never ill."""

    endpoint, host = "recording", ""

    def __init__(self, path: Path) -> None:
        self.requests = 0
        self._lines: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            oid, found, rest = line.partition("|")
            if found:
                self._lines[oid.lstrip(".")] = rest

    def answer(self, oid: Oid) -> Answer:
        """What the device said there; REFUSED where it had nothing."""
        rest = self._lines.get(".".join(map(str, oid)))
        if rest is None:
            return Flaw.REFUSED
        tag, _, text = rest.partition("|")
        return _answer(tag, text)

    async def get(self, oid: Oid) -> Answer:
        """One variable."""
        return self.answer(oid)

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """Each place, in order."""
        self.requests += 1
        return tuple(
            self.answer(at.oid) if isinstance(at, SnmpAt) else Flaw.REFUSED for at in places.at
        )

    async def walk(self, root: Oid, after: Oid | None = None, within_s: float = 10.0) -> Walked:
        """Everything below a column, in order."""
        self.requests += 1
        below = ".".join(map(str, root)) + "."
        names = sorted(
            tuple(map(int, oid.split("."))) for oid in self._lines if oid.startswith(below)
        )
        return Walked(tuple(names), tuple(map(self.answer, names)))

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """A recording cannot be written."""
        return WriteReply("rejected", "a recording")

    async def close(self) -> None:
        """Nothing to let go of."""
