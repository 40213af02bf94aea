"""The cap in force of each node: the greatest that it may be running at, as far as we can know.

u = max(last value read back, every value sent and not disproved by a later read-back). A node
silent for 60 s may have rebooted: the board's maximum, unless its rack's meter bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from facility.commands import Ack, Command, Outcome
from facility.points import FloatArray, IntArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

BoolArray = npt.NDArray[np.bool_]

SILENT_S: Final = 60.0
#: A read-back this long after a command was sent shows what became of it (deadline + one scan).
DISPROOF_S: Final = 3.5
SAME_W: Final = 1.0
LEASED: Final = 1
#: A cap that rose by itself is taken back within a status, a cycle, a deadline and a status.
TAKEN_BACK_S: Final = 5.0
#: One that rises again within this time is not taken for the first any more.
AGAIN_S: Final = 60.0


def _none() -> FloatArray:
    return np.zeros(0)


def _nowhere() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SentCaps:
    """Caps on their way: sent and not yet proved or disproved by a read-back; K of them.

    Attributes:
        node: int64[K], which node; value_w: float64[K], W per GPU.
        sequence: int64[K], of the command; at_s: float64[K], when it was sent, monotonic.
        raises: bool[K].
    """

    node: IntArray = field(default_factory=_nowhere)
    value_w: FloatArray = field(default_factory=_none)
    sequence: IntArray = field(default_factory=_nowhere)
    at_s: FloatArray = field(default_factory=_none)
    raises: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.node)

    def only(self, which: BoolArray) -> SentCaps:
        """Those of which `which` (bool[K]) is true."""
        if which.all():
            return self
        return SentCaps(
            self.node[which],
            self.value_w[which],
            self.sequence[which],
            self.at_s[which],
            self.raises[which],
        )

    def and_these(self, more: SentCaps) -> SentCaps:
        """These, then `more`."""
        if not len(more):
            return self
        return SentCaps(
            np.concatenate([self.node, more.node]),
            np.concatenate([self.value_w, more.value_w]),
            np.concatenate([self.sequence, more.sequence]),
            np.concatenate([self.at_s, more.at_s]),
            np.concatenate([self.raises, more.raises]),
        )


@dataclass(frozen=True, eq=False)
class CapMemory:
    """What is remembered of caps.

    Attributes:
        readback_w: float64[N], last cap read back; NaN: never.
        heard_s: float64[N], when (monotonic); -inf: never.
        commanded_w: float64[N], last cap that a node accepted from us; NaN: none.
        foreign: whether somebody else's cap was found, per node.
        lowered_s: float64[N], when a lower cap than before was last read back; -inf: never.
        risen_s: float64[N], when one above all that we asked for was first; -inf: never.
        surged_s: float64[N], since when its rack draws more than caps allow; NaN: it does not.
        credit_w: raise still allowed by the site's ramp.
        credit_s: when the credit was last topped up.
    """

    readback_w: FloatArray
    heard_s: FloatArray
    commanded_w: FloatArray
    foreign: BoolArray
    lowered_s: FloatArray
    risen_s: FloatArray
    surged_s: FloatArray
    sent: SentCaps = field(default_factory=SentCaps)
    credit_w: float = 0.0
    credit_s: float | None = None

    @classmethod
    def empty(cls, nodes: int) -> CapMemory:
        """Nothing known yet."""
        nan = np.full(nodes, np.nan)
        never = np.full(nodes, -np.inf)
        nobodys = np.zeros(nodes, dtype=np.bool_)
        return cls(nan, never, nan.copy(), nobodys, never.copy(), never.copy(), nan.copy())


@dataclass(frozen=True, eq=False)
class CapForce:
    """The present state of all caps, W per GPU.

    Attributes:
        in_force_w: float64[N], what every check must assume.
        readback_w: float64[N], the last value read back; NaN: never.
        answering: bool[N], a GOOD read-back in this cycle.
        leased: bool[N], the agent says that it works under our lease.
        silent: bool[N], no word for 60 s.
        foreign: bool[N], a cap that we did not set.
        risen: bool[N], one above ours that has only just been seen: it is being taken back.
    """

    in_force_w: FloatArray
    readback_w: FloatArray
    answering: BoolArray
    leased: BoolArray
    silent: BoolArray
    foreign: BoolArray
    risen: BoolArray


def _readback(site: SiteModel, snapshot: Snapshot) -> FloatArray:
    """float64[N]: cap of the node, or of its highest GPU where boards differ."""
    total = snapshot.good(site.node_cap)
    if site.gpu_enforced.size == 0:
        return total
    boards = np.fmax.reduce(snapshot.good(site.gpu_enforced), axis=1)
    return np.where(np.isnan(total), np.nan, np.fmax(total, boards))


def _doubtful(site: SiteModel, snapshot: Snapshot) -> FloatArray:
    """float64[N]: the highest cap that anything of the node tells, good or not; NaN: nothing."""
    total = snapshot.usable(site.node_cap)
    if site.gpu_enforced.size == 0:
        return total
    return np.fmax(total, np.fmax.reduce(snapshot.usable(site.gpu_enforced), axis=1))


def _received_s(site: SiteModel, snapshot: Snapshot) -> FloatArray:
    return np.asarray(snapshot.now_s - snapshot.ages_of(site.node_cap), dtype=np.float64)


def caps_in_force(
    site: SiteModel,
    snapshot: Snapshot,
    memory: CapMemory,
    acks: Iterable[Ack],
    meter_bounds: BoolArray,
) -> tuple[CapForce, CapMemory]:
    """What every node may be running at now.

    Args:
        site: the site.
        snapshot: the present.
        memory: of the cycle before.
        acks: that arrived since.
        meter_bounds: bool[N]; the rack's meters show that a silent node draws no more than the
            last known caps allow.
    """
    now_s = snapshot.now_s
    readback, received = _readback(site, snapshot), _received_s(site, snapshot)
    answering = ~np.isnan(readback)
    last = np.where(answering, readback, memory.readback_w)
    heard = np.where(answering, received, memory.heard_s)
    with np.errstate(invalid="ignore"):
        lower = answering & (readback < memory.readback_w - SAME_W)
    lowered = np.where(lower, now_s, memory.lowered_s)
    commanded = memory.commanded_w.copy()
    for ack in acks:
        node = site.cap_index.get(ack.command.point)
        if node is None:
            continue
        if ack.outcome is Outcome.APPLIED:
            commanded[node] = ack.command.value
        elif ack.outcome is Outcome.CLAMPED and ack.actual is not None:
            commanded[node] = ack.actual
    under_way = memory.sent
    told = answering[under_way.node]
    # Read back as it was sent: a node took it, though the word of that may be lost.
    proved = told & (np.abs(readback[under_way.node] - under_way.value_w) <= SAME_W)
    commanded[under_way.node[proved]] = under_way.value_w[proved]
    seen = told & (received[under_way.node] >= under_way.at_s + DISPROOF_S)
    sent = under_way.only(~seen)
    silent = now_s - heard > SILENT_S
    force = np.where(np.isnan(last), site.max_cap_w, last)
    force = np.where(silent & ~meter_bounds, np.maximum(site.max_cap_w, force), force)
    # A node that tells only a part is not read back, but what it tells may be in force.
    force = np.fmax(force, np.where(answering, np.nan, _doubtful(site, snapshot)))
    np.maximum.at(force, sent.node, sent.value_w)
    pending = np.zeros(len(site.nodes), dtype=np.bool_)
    pending[sent.node] = True
    leased = snapshot.good(site.node_agent_state) == LEASED
    differs = answering & leased & ~pending & (np.abs(readback - commanded) > SAME_W)
    matches = answering & ~pending & (np.abs(readback - commanded) <= SAME_W)
    # Above all that we asked for it is not ours, whatever of ours is on its way as well; but what
    # was read back before a command was sent is no answer to it.
    asked = commanded.copy()
    np.fmax.at(asked, sent.node, sent.value_w)
    with np.errstate(invalid="ignore"):
        old = pending & (readback <= memory.readback_w + SAME_W)
        above = answering & leased & ~old & (readback > asked + SAME_W)
        differs |= above
    foreign = np.where(matches | ~leased & answering, False, memory.foreign | differs)
    risen_s = np.where(above & (now_s - memory.risen_s > AGAIN_S), now_s, memory.risen_s)
    with np.errstate(invalid="ignore"):
        risen = foreign & answering & (readback > commanded + SAME_W)
    risen &= now_s - risen_s <= TAKEN_BACK_S
    force_now = CapForce(force, last, answering, leased, silent, foreign, risen)
    return force_now, replace(
        memory,
        readback_w=last,
        heard_s=heard,
        commanded_w=commanded,
        foreign=foreign,
        sent=sent,
        lowered_s=lowered,
        risen_s=risen_s,
    )


def remember_sent(
    site: SiteModel, memory: CapMemory, commands: Iterable[Command], now_s: float
) -> CapMemory:
    """Note caps that are about to be sent; they count as in force until disproved."""
    caps = [(site.cap_index[c.point], c) for c in commands if c.point in site.cap_index]
    added = SentCaps(
        np.array([node for node, _ in caps], dtype=np.int64),
        np.array([c.value for _, c in caps], dtype=np.float64),
        np.array([c.sequence for _, c in caps], dtype=np.int64),
        np.full(len(caps), now_s, dtype=np.float64),
        np.array([c.raises for _, c in caps], dtype=np.bool_),
    )
    return replace(memory, sent=memory.sent.and_these(added))
