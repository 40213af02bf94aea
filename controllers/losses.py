"""Which elements are really lost, believed on two independent signs.

A sign is a meter that reads nothing, a UPS that says it does not carry, a feed meter at 0 W or
dead while the rack's other feed is alive, or siblings that took over the load. For every element
X, a loss of X predicts what dies. X is believed lost when at least two signs of different sources
agree with that and nothing alive contradicts it; of several explanations the one that explains
the most with the least loss wins. One sign is a suspicion: nothing is lost, but nothing is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from controllers.flows import drawn_w
from facility.config import Power
from facility.points import FloatArray, IntArray
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import Topology

BoolArray = npt.NDArray[np.bool_]

#: Below this a rack feed or an element carries nothing (an idle PDU draws a few W).
NOTHING_W: Final = 25.0
#: rfc1628 output source codes that mean "no output".
UPS_OUTPUT_NONE: Final = 2.0
BELIEVE_S: Final = 1.5
RETURN_S: Final = 5.0
#: A sibling whose load rose by this share took somebody's place.
TOOK_OVER: Final = 0.2
#: Feeds that carry this part more of what a lost one carried took its place.
MOST: Final = 0.5
#: How fast the usual load is learnt, per cycle.
LEARN: Final = 0.05


@dataclass(frozen=True, eq=False)
class LossMemory:
    """Believed and suspected losses.

    Attributes:
        since_ms: believed lost element -> since when (UTC ms).
        since_s: the same in monotonic s, which no step of the calendar moves.
        signs_s: candidate element -> since when its signs have stood (monotonic s).
        gone_s: believed element -> since when its signs have been absent.
        usual_w: element -> its load while nothing was amiss, for take-over.
        usual_feed_w: float64[F], the same of each feed; NaN: never read; empty: nothing seen yet.
    """

    since_ms: Mapping[str, int] = field(default_factory=dict)
    since_s: Mapping[str, float] = field(default_factory=dict)
    signs_s: Mapping[str, float] = field(default_factory=dict)
    gone_s: Mapping[str, float] = field(default_factory=dict)
    usual_w: Mapping[str, float] = field(default_factory=dict)
    usual_feed_w: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def lost(self) -> tuple[str, ...]:
        """Believed lost elements, in order of name."""
        return tuple(sorted(self.since_ms))


@dataclass(frozen=True, slots=True)
class Losses:
    """What one cycle believes.

    Attributes:
        lost: believed, on two signs.
        suspected: one sign stands; the other reading of the world is possible.
        because: element -> the signs, for people.
        coming: those suspected on enough signs, that have only not stood for long enough.
    """

    lost: tuple[str, ...]
    suspected: tuple[str, ...]
    because: Mapping[str, str]
    coming: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Footprint:
    """What a loss of one element takes down, besides maintenance.

    Attributes:
        dead: bool[E]; feeds: bool[F], feed columns without supply.
    """

    dead: BoolArray
    feeds: BoolArray


class _ByIdentity:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.topology is self.topology


@lru_cache(maxsize=16)
def _footprints(key: _ByIdentity) -> Mapping[str, Footprint]:
    topology = key.topology
    compiled = topology.compiled
    columns = len(topology.feeds)
    pair_case = compiled.pair_case[compiled.feed_pair]
    found: dict[str, Footprint] = {}
    for case in topology.cases[1:]:
        feeds = np.zeros(columns, dtype=np.bool_)
        mine = (pair_case == case.index) & ~compiled.feed_alive
        feeds[compiled.feed_column[mine]] = True
        dead = compiled.dead[case.index] & ~compiled.dead[0]
        if case.lost is not None:
            found[case.lost] = Footprint(dead, feeds)
    return found


@lru_cache(maxsize=16)
def _all_upstream(key: _ByIdentity) -> Mapping[str, frozenset[str]]:
    power = key.topology.power
    return {element: _upstream(power, element) for element in power.elements}


def footprints(topology: Topology) -> Mapping[str, Footprint]:
    """What each single loss takes down, compiled once per topology."""
    return _footprints(_ByIdentity(topology))


@dataclass(frozen=True, eq=False)
class _Signs:
    """Per element and feed: alive (carries), nothing (0 W or says so), mute (no reading)."""

    element_alive: BoolArray
    element_nothing: BoolArray
    element_mute: BoolArray
    element_says_so: BoolArray
    feed_alive: BoolArray
    feed_nothing: BoolArray
    feed_mute: BoolArray
    element_w: FloatArray
    feed_w: FloatArray
    metered: BoolArray


def _doubted(snapshot: Snapshot, meters: IntArray) -> BoolArray:
    """Meters whose reading is in doubt and not nothing: no witnesses, for a loss or against it.

    A meter that physics contradicts has not fallen silent; a doubtful 0 W counts as silence.
    """
    shown = drawn_w(snapshot.usable(meters))
    with np.errstate(invalid="ignore"):
        return np.isnan(snapshot.good(meters)) & (shown > NOTHING_W)


def _signs(site: SiteModel, snapshot: Snapshot) -> _Signs:
    element_w = drawn_w(snapshot.good(site.element_meter))
    feed_w = drawn_w(snapshot.good(site.feed_meter))
    state = snapshot.good(site.element_state)
    has_element = (site.element_meter >= 0) & ~_doubted(snapshot, site.element_meter)
    has_feed = (site.feed_meter >= 0) & ~_doubted(snapshot, site.feed_meter)
    with np.errstate(invalid="ignore"):
        says_none = state == UPS_OUTPUT_NONE
        zero = element_w <= NOTHING_W
        feed_zero = feed_w <= NOTHING_W
        alive = (element_w > NOTHING_W) & ~says_none
        feed_alive = feed_w > NOTHING_W
    return _Signs(
        alive,
        has_element & (zero | says_none),
        has_element & np.isnan(element_w) & ~says_none,
        np.asarray(says_none),
        feed_alive,
        has_feed & feed_zero,
        has_feed & np.isnan(feed_w),
        element_w,
        feed_w,
        has_feed,
    )


def _siblings_took_over(
    site: SiteModel, element: str, signs: _Signs, usual: Mapping[str, float]
) -> bool:
    """Whether the other members of the element's group carry clearly more than usual."""
    index = site.topology.element_index
    for group in site.facility.power.groups.values():
        if element not in group.members:
            continue
        others = [m for m in group.members if m != element and m in index]
        if not others:
            return False
        known = [
            (signs.element_w[index[m]], usual[m])
            for m in others
            if m in usual and not np.isnan(signs.element_w[index[m]])
        ]
        return len(known) == len(others) and all(
            now > (1.0 + TOOK_OVER) * before for now, before in known
        )
    return False


def _feeds_took_over(
    site: SiteModel, print_: Footprint, signs: _Signs, usual_w: FloatArray
) -> bool:
    """Whether the living feeds of the racks that lost one carry most of what that one used to."""
    if not usual_w.size:
        return False
    loads = len(site.topology.loads)
    hit = np.bincount(site.topology.feed_load, print_.feeds, loads) > 0.0
    spared = hit[site.topology.feed_load] & ~print_.feeds & signs.feed_alive & ~np.isnan(usual_w)
    moved = float(np.nansum(usual_w[print_.feeds]))
    now, before = float(signs.feed_w[spared].sum()), float(usual_w[spared].sum())
    return moved > NOTHING_W and now > before + MOST * moved


def _upstream(power: Power, element: str) -> frozenset[str]:
    found: set[str] = set()
    stack = [element]
    while stack:
        name = stack.pop()
        above = (
            power.elements[name].fed_by if name in power.elements else power.groups[name].members
        )
        transfer = power.elements[name].transfer if name in power.elements else None
        both = (*above, transfer.normal, transfer.alternate) if transfer else above
        for parent in both:
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return frozenset(n for n in found if n in power.elements)


def upstream(site: SiteModel, element: str) -> frozenset[str]:
    """Elements above `element`, through groups and switches."""
    return _all_upstream(_ByIdentity(site.topology))[element]


def _evidence(
    site: SiteModel, element: str, print_: Footprint, signs: _Signs, memory: LossMemory
) -> tuple[list[str], int]:
    """Signs for a loss of `element` (one per source), and how many points they explain.

    Any dead thing that is seen alive refutes the loss.
    """
    if (print_.dead & signs.element_alive).any() or (print_.feeds & signs.feed_alive).any():
        return [], 0
    index = site.topology.element_index[element]
    found: list[str] = []
    zero = print_.dead & signs.element_nothing
    mute = print_.dead & signs.element_mute
    own = bool(zero[index] or mute[index])
    if zero.any():
        names = [site.topology.elements[int(i)] for i in np.flatnonzero(zero)]
        found.append(f"{', '.join(names[:3])} carries nothing")
    elif mute.any():
        found.append("its meter is silent")
    feed_zero = print_.feeds & signs.feed_nothing
    feed_mute = print_.feeds & signs.feed_mute
    metered = int((print_.feeds & signs.metered).sum())
    counted = int(feed_zero.sum() + feed_mute.sum())
    if metered and counted == metered:
        if feed_zero.any():
            found.append(f"{int(feed_zero.sum())} feed meters read nothing")
        # One silent meter is a broken meter; all of several at once are one event.
        if int(feed_mute.sum()) >= 2:
            found.append(f"{int(feed_mute.sum())} feed meters are silent at once")
    above = [site.topology.element_index[e] for e in upstream(site, element)]
    metered_above = [i for i in above if site.element_meter[i] >= 0]
    if metered_above and all(signs.element_nothing[i] for i in metered_above):
        found.append("what feeds it carries nothing")
    if counted and _feeds_took_over(site, print_, signs, memory.usual_feed_w):
        found.append("the other feeds of its racks took over")
    if own and not print_.feeds.any() and _siblings_took_over(site, element, signs, memory.usual_w):
        found.append("its siblings took over its load")
    if signs.element_says_so[index] and not np.isnan(signs.element_w[index]):
        found.append("it says that it gives no output")
    explained = int(zero.sum() + mute.sum() + counted)
    return found, explained


def _blind(site: SiteModel, signs: _Signs) -> bool:
    """Whether every meter is silent: that is our own blindness, not the plant's death."""
    return not (signs.element_alive.any() or signs.feed_alive.any())


def believe(
    site: SiteModel, topology: Topology, snapshot: Snapshot, memory: LossMemory
) -> tuple[Losses, LossMemory]:
    """What is lost in this cycle.

    Args:
        site: the site.
        topology: without what is in maintenance (not without what is believed lost).
        snapshot: the present.
        memory: of the cycle before.
    """
    signs, now_s = _signs(site, snapshot), snapshot.now_s
    prints = footprints(topology)
    scored: dict[str, tuple[list[str], int, int]] = {}
    if not _blind(site, signs):
        for element, print_ in prints.items():
            found, explained = _evidence(site, element, print_, signs, memory)
            if found:
                cost = int(print_.dead.sum() + print_.feeds.sum())
                scored[element] = (found, explained, cost)
    best = _explanations(site, prints, scored)
    signs_s = {e: memory.signs_s.get(e, now_s) for e in best}
    since, gone, because = dict(memory.since_ms), dict(memory.gone_s), {}
    since_s = dict(memory.since_s)
    suspected: list[str] = []
    for element in best:
        found = scored[element][0]
        because[element] = " and ".join(found)
        if element in since:
            gone.pop(element, None)
        elif len(found) >= 2 and now_s - signs_s[element] >= BELIEVE_S:
            since[element], since_s[element] = snapshot.now_ms, now_s
        else:
            suspected.append(element)
    for element in list(since):
        if element in best:
            continue
        gone.setdefault(element, now_s)
        if now_s - gone[element] >= RETURN_S and not _blind(site, signs):
            del since[element], since_s[element], gone[element]
    usual, usual_feed = dict(memory.usual_w), memory.usual_feed_w
    if not best and not since:
        before = usual_feed if usual_feed.size else np.full(len(signs.feed_w), np.nan)
        learnt = np.where(np.isnan(before), signs.feed_w, before + LEARN * (signs.feed_w - before))
        usual_feed = np.where(np.isnan(signs.feed_w), before, learnt)
        for i, element in enumerate(site.topology.elements):
            value = float(signs.element_w[i])
            if not np.isnan(value):
                was = usual.get(element, value)
                usual[element] = was + LEARN * (value - was)
    coming = tuple(sorted(e for e in suspected if len(scored[e][0]) >= 2))
    losses = Losses(tuple(sorted(since)), tuple(sorted(suspected)), because, coming)
    return losses, LossMemory(since, since_s, signs_s, gone, usual, usual_feed)


def _explanations(
    site: SiteModel,
    prints: Mapping[str, Footprint],
    scored: Mapping[str, tuple[list[str], int, int]],
) -> list[str]:
    """The fewest losses that explain the most; ties go to the least loss, then to file order.

    Elements in a row (a PDU and the only busway below it) explain the same meters: one is named.
    """
    order = sorted(scored, key=lambda e: (len(scored[e][0]) < 2, -scored[e][1], scored[e][2]))
    chosen: list[str] = []
    above: set[str] = set()
    for element in order:
        print_ = prints[element]
        # What feeds a dead element carries nothing because of it.
        overlap = element in above or any(
            (prints[c].dead & print_.dead).any() or (prints[c].feeds & print_.feeds).any()
            for c in chosen
        )
        if not overlap:
            chosen.append(element)
            above |= upstream(site, element)
    return chosen
