"""Cords as they are wired: planned drills of one cord each, and what they have proved.

Somebody opens one feed of one load for a moment; the meters show whether it is the cord that the
file declares. That is signed for one declared parent: a file that hangs the cord elsewhere later
makes it unsigned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

CordState = Literal["waiting", "open", "signed", "failed", "expired", "cancelled", "interrupted"]
#: States in which a drill goes on.
RUNNING: Final[frozenset[CordState]] = frozenset({"waiting", "open"})
STATES: Final[tuple[CordState, ...]] = (
    "waiting",
    "open",
    "signed",
    "failed",
    "expired",
    "cancelled",
    "interrupted",
)


@dataclass(frozen=True)
class CordDrill:
    """One cord, opened on purpose.

    Attributes:
        load, feed: which cord; parent: the element or group that the file hangs it on.
        started_ms, until_ms: the window, UTC ms; ended_ms: None while it goes on.
        config_sha256: of the file it was held against.
        state: `waiting` for the cord to be opened; `open`: opened as declared, not closed again;
            `signed`: proved; `failed`: the meters contradict the file; `expired`: nothing was
            opened; `interrupted`: by a loss or a restart.
        evidence: what was measured, plain JSON; W.
    """

    id: str
    load: str
    feed: str
    parent: str
    by: str
    reason: str
    started_ms: int
    until_ms: int
    config_sha256: str
    ended_ms: int | None = None
    state: CordState = "waiting"
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`r05/a`."""
        return f"{self.load}/{self.feed}"

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.state in RUNNING


def signatures(
    drills: Iterable[CordDrill], parents: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], CordDrill]:
    """The newest valid signature of each cord.

    Args:
        drills: in any order.
        parents: (load, feed) -> what the present file hangs it on.
    """
    found: dict[tuple[str, str], CordDrill] = {}
    for drill in drills:
        cord = (drill.load, drill.feed)
        if drill.state != "signed" or parents.get(cord) != drill.parent:
            continue
        newest = found.get(cord)
        if newest is None or (drill.ended_ms or 0) > (newest.ended_ms or 0):
            found[cord] = drill
    return found
