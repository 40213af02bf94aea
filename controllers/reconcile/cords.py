"""A single-cord drill judged on live data: does the cord hang where the file says?

Before: the mean of what every meter read. Opened: the feed's own meter reads about nothing (or is
silent, where it lives on that feed), the other feeds of the load carry what it carried, and every
metered element above changes as the declared topology says, other loads' changes taken off. What
has to be so is judged by the mean of `HOLD_S`, once every meter has had `SETTLE_S` to be read
again; a contradiction that stands as long fails the drill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from controllers.flows import feed_weights
from controllers.losses import upstream
from controllers.wording import kilowatts, listed
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

BoolArray = npt.NDArray[np.bool_]

#: Looks (and seconds) of a quiet plant that are needed before a cord may be opened.
LEARN_S: Final = 10.0
TAU_S: Final = 20.0
SETTLE_S: Final = 6.0
HOLD_S: Final = 5.0
#: Below this a feed carries nothing; below this part of what it carried too.
NOTHING_W: Final = 25.0
NOTHING_SHARE: Final = 0.05
#: A feed that carries less than this proves nothing when it is opened.
LEAST_W: Final = 200.0
#: Loads swing while somebody walks: by this part of what they were.
SWING: Final = 0.15
#: By this part of what is expected an element's meter may differ; members of a group share as
#: their impedances make them.
ELEMENT_SHARE: Final = 0.3
LEAST_CHANGE_W: Final = 100.0
#: A closed cord carries at least this part of what it did.
BACK: Final = 0.5

Verdict = Literal["learning", "ready", "open", "back", "failed"]


@dataclass(frozen=True, eq=False)
class CordWatch:
    """One drill as it is watched.

    Attributes:
        column: the feed's column in the topology.
        feed_w, element_w, noise_w2: float64[F], [E], [E]: means before it is opened, and the
            variance of the elements' meters.
        began_s, at_s: of watching, and of the last look.
        since_s: since when the meters say that it is open, or contradict; None: neither.
        after_feed_w, after_element_w: sums over the looks once settled; looks: how many.
        verdict: what is so now; why: what contradicts, in words; evidence: plain JSON.
    """

    column: int
    feed_w: FloatArray
    element_w: FloatArray
    noise_w2: FloatArray
    began_s: float
    at_s: float
    since_s: float | None = None
    after_feed_w: FloatArray | None = None
    after_element_w: FloatArray | None = None
    looks: int = 0
    verdict: Verdict = "learning"
    why: str = ""
    evidence: Mapping[str, Any] | None = None


def begin(site: SiteModel, snapshot: Snapshot, column: int) -> CordWatch:
    """Start to watch a cord that nobody has opened yet."""
    feeds, elements = snapshot.good(site.feed_meter), snapshot.good(site.element_meter)
    none = np.zeros(len(elements))
    return CordWatch(column, feeds, elements, none, snapshot.now_s, snapshot.now_s)


def unfit(site: SiteModel, snapshot: Snapshot, column: int) -> str:
    """Why opening this cord would prove nothing, or would darken its load; "" if it is fit."""
    topology = site.topology
    load, feed = topology.feeds[column]
    mine = np.flatnonzero(topology.feed_load == topology.feed_load[column])
    reads = snapshot.good(site.feed_meter)
    needs = int(topology.load_needs[topology.feed_load[column]])
    if len(mine) - 1 < needs:
        return f"{load} needs {needs} of its {len(mine)} feeds: it would go dark"
    silent = [topology.feeds[int(c)][1] for c in mine if np.isnan(reads[c])]
    if silent:
        return f"the meter of {load}/{silent[0]} gives no good reading"
    if reads[column] < LEAST_W:
        return f"{load}/{feed} carries only {reads[column]:.0f} W: opening it would show nothing"
    others = mine[mine != column]
    if int((reads[others] > NOTHING_W).sum()) < needs:
        return f"the other feeds of {load} carry nothing: it would go dark"
    return ""


def look(site: SiteModel, snapshot: Snapshot, watch: CordWatch) -> CordWatch:
    """One look at the plant; see the module for what must be so."""
    feeds, elements = snapshot.good(site.feed_meter), snapshot.good(site.element_meter)
    now_s = snapshot.now_s
    if watch.verdict == "open":
        back = feeds[watch.column] >= BACK * watch.feed_w[watch.column]
        return replace(watch, at_s=now_s, verdict="back" if back else "open")
    opened, why = _signs(site, watch, feeds)
    if not opened and not why:
        ready = now_s - watch.began_s >= LEARN_S
        learnt = _learn(watch, feeds, elements, now_s)
        return replace(learnt, since_s=None, looks=0, verdict="ready" if ready else "learning")
    if watch.verdict == "learning":
        why = "it was opened before the meters had been watched for long enough"
        return replace(watch, at_s=now_s, verdict="failed", why=why, evidence={})
    since_s = now_s if watch.since_s is None else watch.since_s
    held = replace(watch, at_s=now_s, since_s=since_s)
    if now_s - since_s < SETTLE_S:
        return replace(held, after_feed_w=None, after_element_w=None, looks=0)
    held = replace(
        held,
        looks=watch.looks + 1,
        after_feed_w=_sum(watch.after_feed_w, feeds),
        after_element_w=_sum(watch.after_element_w, elements),
    )
    if now_s - since_s < SETTLE_S + HOLD_S:
        return held
    return _judge(site, held, why)


def _sum(past: FloatArray | None, now: FloatArray) -> FloatArray:
    return now if past is None else past + now


def _learn(watch: CordWatch, feeds: FloatArray, elements: FloatArray, now_s: float) -> CordWatch:
    """Means and noise of a plant in which nothing is opened."""
    weight = 1.0 - float(np.exp(-max(now_s - watch.at_s, 0.0) / TAU_S))

    def mean(past: FloatArray, now: FloatArray) -> FloatArray:
        moved = past + weight * (now - past)
        return np.where(np.isnan(now), past, np.where(np.isnan(past), now, moved))

    off = np.nan_to_num((elements - watch.element_w) ** 2)
    return replace(
        watch,
        feed_w=mean(watch.feed_w, feeds),
        element_w=mean(watch.element_w, elements),
        noise_w2=mean(watch.noise_w2, off),
        at_s=now_s,
    )


def _nothing(before_w: FloatArray, now_w: FloatArray) -> BoolArray:
    """bool[F]: carried something and carries nothing now; a silent meter says neither."""
    with np.errstate(invalid="ignore"):
        gone = now_w <= np.maximum(NOTHING_W, NOTHING_SHARE * before_w)
        return np.asarray((before_w >= LEAST_W) & gone)


def _taken_over(
    site: SiteModel, before_w: FloatArray, now_w: FloatArray, gone: BoolArray
) -> BoolArray:
    """bool[F]: the other feeds of the load carry what the gone ones did: a cord, no shutdown."""
    load, loads = site.topology.feed_load, len(site.topology.loads)
    moved = np.bincount(load, np.where(gone, before_w, 0.0), loads)
    rest = np.bincount(load, np.where(gone, 0.0, now_w - before_w), loads)
    with np.errstate(invalid="ignore"):
        return np.asarray((rest >= (1.0 - 2.0 * SWING) * moved)[load])


def _signs(site: SiteModel, watch: CordWatch, feeds: FloatArray) -> tuple[bool, str]:
    """Whether the cord looks open, and what contradicts that it is the one declared."""
    topology, column = site.topology, watch.column
    gone = _nothing(watch.feed_w, feeds)
    elsewhere = gone & _taken_over(site, watch.feed_w, feeds, gone)
    mine = topology.feed_load == topology.feed_load[column]
    others = mine.copy()
    others[column] = False
    before_w, moved_w = float(watch.feed_w[others].sum()), float(watch.feed_w[column])
    took_over = float(feeds[others].sum()) >= before_w + (1.0 - 2.0 * SWING) * moved_w
    silent = bool(np.isnan(feeds[column]))
    if gone[column] or (silent and took_over):
        return True, ""
    fell = [f"{a}/{b}" for a, b in (topology.feeds[int(c)] for c in np.flatnonzero(elsewhere))]
    if fell:
        return False, f"{listed(fell)} fell instead"
    return False, ""


def _judge(site: SiteModel, watch: CordWatch, why: str) -> CordWatch:
    """Hold what stood for `HOLD_S` against the file."""
    topology, column = site.topology, watch.column
    assert watch.after_feed_w is not None
    assert watch.after_element_w is not None
    feeds, elements = watch.after_feed_w / watch.looks, watch.after_element_w / watch.looks
    mine = topology.feed_load == topology.feed_load[column]
    others = mine.copy()
    others[column] = False
    moved_w, total_w = float(watch.feed_w[column]), float(watch.feed_w[mine].sum())
    other_w = float(feeds[others].sum())
    accuracy = site.facility.power.meter_accuracy
    room_w = (SWING + accuracy) * total_w + NOTHING_W
    took = abs(other_w - total_w) <= room_w
    checks, wrong = _elements(site, watch, feeds, elements, moved_w)
    evidence: dict[str, Any] = {
        "feed": {
            "before_w": moved_w,
            "now_w": None if np.isnan(feeds[column]) else float(feeds[column]),
        },
        "other_feeds": {
            "before_w": total_w - moved_w,
            "now_w": None if np.isnan(other_w) else other_w,
            "expected_w": total_w,
            "ok": bool(took),
        },
        "elements": checks,
    }
    reasons = [why] if why else []
    if not why and not took:
        reasons.append("the other feeds did not take over what it carried")
    reasons += wrong
    verdict: Verdict = "failed" if reasons else "open"
    text = "; ".join(reasons)
    return replace(watch, verdict=verdict, why=text, evidence=evidence)


def _elements(
    site: SiteModel,
    watch: CordWatch,
    feeds: FloatArray,
    elements: FloatArray,
    moved_w: float,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Each element meter that says something of this cord, and those that contradict."""
    topology = site.topology
    w = feed_weights(topology)
    change = feeds - watch.feed_w
    if np.isnan(change[watch.column]):
        change[watch.column] = -moved_w
    mine = topology.feed_load[w.feed] == topology.feed_load[watch.column]
    n = len(topology.elements)
    expected = np.bincount(w.element[mine], w.weight[mine] * change[w.feed[mine]], n)
    # What other loads did meanwhile, where all of them are metered; else it is noise.
    rest = np.bincount(w.element[~mine], w.weight[~mine] * change[w.feed[~mine]], n)
    seen = elements - watch.element_w - np.nan_to_num(rest)
    noise_w = np.sqrt(watch.noise_w2)
    room = np.maximum(np.maximum(ELEMENT_SHARE * np.abs(expected), 3.0 * noise_w), LEAST_CHANGE_W)
    blurred = _below_unknown(site)
    checks: list[dict[str, Any]] = []
    wrong: list[str] = []
    for e in np.flatnonzero(np.isfinite(seen)):
        name = topology.elements[int(e)]
        tells = abs(expected[e]) >= 2.0 * room[e] and name not in blurred
        off = abs(seen[e] - expected[e])
        stranger = abs(expected[e]) < NOTHING_SHARE * moved_w and name not in blurred
        if tells:
            ok = bool(off <= room[e])
            checks.append(
                {
                    "element": name,
                    "expected_w": float(expected[e]),
                    "seen_w": float(seen[e]),
                    "ok": ok,
                }
            )
            if not ok:
                wrong.append(
                    f"{name} changed by {_signed(float(seen[e]))} where "
                    f"{_signed(float(expected[e]))} was due"
                )
        elif stranger and off > max(BACK * moved_w, 3.0 * noise_w[e]):
            wrong.append(f"{name} changed by {_signed(float(seen[e]))} and is not above this cord")
    return checks, wrong


def _signed(watts: float) -> str:
    return f"{'+' if watts >= 0.0 else '-'}{kilowatts(abs(watts))}"


def _below_unknown(site: SiteModel) -> frozenset[str]:
    """Elements above a switch of which nobody knows on which side it stands."""
    found: set[str] = set()
    for name, side in site.topology.sources.items():
        if side == "unknown":
            found |= upstream(site, name)
    return frozenset(found)
