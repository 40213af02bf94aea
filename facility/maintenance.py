"""Maintenance: what people take out of service, from when until when, by whom and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["element", "rack", "device", "load"]
#: What can be taken out of service.
KINDS: Final[tuple[Kind, ...]] = ("element", "rack", "device", "load")
#: So long before its start an element counts as lost: caps come down before a breaker is opened.
LEAD_MS: Final = 120_000
#: Longest that one entry may last.
LONGEST_MS: Final = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One stretch of work on one thing; it ends by itself.

    Attributes:
        id: stable identity.
        kind, subject: what is worked on. An `element` counts as lost in every case. A `load` (a
            CDU) counts as lost for cooling and still draws power; so does a `rack`, which may be
            switched on at any time. To a `device` nothing is written.
        ticket: of the site's own books; "" none.
        since_ms, until_ms: UTC ms, end excluded.
        freeze: scopes ("hall", "rack:r01", "loop:loop-1") in which nothing but protection moves.
        accepted: kinds of consequences that were accepted when it was asked for.
    """

    id: str
    kind: Kind
    subject: str
    by: str
    reason: str
    ticket: str
    since_ms: int
    until_ms: int
    freeze: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    def counts(self, now_ms: int) -> bool:
        """Whether its element counts as lost: from `LEAD_MS` before its start to its end."""
        return self.since_ms - LEAD_MS <= now_ms < self.until_ms

    def stands(self, now_ms: int) -> bool:
        """Whether people work there now."""
        return self.since_ms <= now_ms < self.until_ms

    def state(self, now_ms: int) -> Literal["planned", "securing", "open", "over"]:
        """Where it is in its life."""
        if now_ms >= self.until_ms:
            return "over"
        if now_ms >= self.since_ms:
            return "open"
        return "securing" if self.counts(now_ms) else "planned"

    def overlaps(self, since_ms: int, until_ms: int) -> bool:
        """Whether it counts at any time of another stretch."""
        return self.since_ms - LEAD_MS < until_ms and since_ms < self.until_ms

    @property
    def name(self) -> str:
        """`element:ups-a2`."""
        return f"{self.kind}:{self.subject}"

    def to_json(self) -> dict[str, Any]:
        """Plain fields; times in UTC ms."""
        return {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "by": self.by,
            "reason": self.reason,
            "ticket": self.ticket,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "freeze": list(self.freeze),
            "accepted": list(self.accepted),
        }


def taken_out(works: Iterable[Maintenance], now_ms: int) -> tuple[str, ...]:
    """What `Topology.without` takes out now: elements, and `load:NAME`; sorted."""
    return out_of(work for work in works if work.counts(now_ms))


def out_of(works: Iterable[Maintenance]) -> tuple[str, ...]:
    """What `Topology.without` takes out for these, whenever they are; sorted."""
    found = set()
    for work in works:
        if work.kind == "element":
            found.add(work.subject)
        elif work.kind == "load":
            found.add(f"load:{work.subject}")
    return tuple(sorted(found))
