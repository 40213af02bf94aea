"""What each load must be taken to draw, live: the law "Load of a rack, live" of control law 1.

P_r = max(5-min metered peak·(1 + ε_m), O_r + Σ_n(O_n + (1 + ε_b)·g_n·u_n/η_psu)) with u_n the cap
in force. A load without caps counts at its metered peak, unmetered for 5 min at its nameplate. A
meter that falls silent never lowers a load: the last peak is held, and caps or nameplate count
beside it. A feed that is believed dead carries nothing, whatever became of its meter: a load that
went on on its other feeds is still metered, and the loss itself moves no cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controllers.blocks import Extremes, low_pass
from controllers.flows import drawn_w
from controllers.overheads import OverheadMemory
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import UNMEASURED_SHARE, Topology

BoolArray = npt.NDArray[np.bool_]

#: One more than five minutes hold, as the newest bucket is only begun.
PEAK_BUCKETS = 11
BUCKET_S = 30.0
#: Time constant of a measured split: supplies share slowly, meters are not read at one instant.
SPLIT_TAU_S = 60.0
#: Meters missing under an element from which on it counts as blind.
BLIND_SHARE = 0.2
#: Feed meters are not read at one instant: when a load moves between feeds, their sum counts it
#: twice until each has been read again. A meter that died keeps its last reading until it is stale;
#: so many parts, each a fifth of that limit, last longer even when the newest is only begun.
SETTLE_BUCKETS = 7
SETTLE_SHARE = 0.2
#: A split of less than this is noise.
LEAST_W = 50.0


@dataclass(frozen=True, eq=False)
class LoadsMemory:
    """What is remembered of loads.

    Attributes:
        sums: of the metered power of each load, feeds: of each feed, since every feed meter was
            read anew.
        peaks: of the metered power that has settled, 5 min.
        held_w: float64[L], last known 5-min peak; NaN: never metered.
        split: float64[F], smoothed measured share of each feed; NaN: never measured.
        overheads: measured where the file states none.
        at_s: monotonic time of the last look.
    """

    sums: Extremes
    feeds: Extremes
    peaks: Extremes
    held_w: FloatArray
    split: FloatArray
    overheads: OverheadMemory
    at_s: float | None = None

    @classmethod
    def empty(cls, site: SiteModel) -> LoadsMemory:
        """Nothing seen yet."""
        loads, feeds = len(site.topology.loads), len(site.topology.feeds)
        sums = Extremes.empty(SETTLE_BUCKETS, loads)
        each = Extremes.empty(SETTLE_BUCKETS, feeds)
        peaks = Extremes.empty(PEAK_BUCKETS, loads)
        nothing = np.full(loads, np.nan), np.full(feeds, np.nan)
        return cls(sums, each, peaks, *nothing, OverheadMemory.empty(site))


@dataclass(frozen=True, eq=False)
class RackLoads:
    """The loads of one cycle.

    Attributes:
        load_w: float64[L], W that every check must assume.
        split: float64[F], share of each feed as `Shares.of` takes it: NaN or below 0 where it is
            not measured now and not stated.
        meter_w: float64[R], metered power of racks; NaN unless every feed has a reading.
        caps_term_w: float64[R], most that overheads and caps in force allow.
        besides_w: float64[L], overhead beyond what the file states; counted in `caps_term_w`.
        peak_w: float64[L], 5-min metered peak (held while the meter is silent); NaN: never seen.
        estimate_w: float64[R], for display where the meter is missing: the present meter, else
            the last peak, else the caps' term.
        blind: racks whose meters are missing where that is 20 % or more under some element.
        untrusted_elements: without GOOD data in this cycle: below them no cap may rise.
    """

    load_w: FloatArray
    split: FloatArray
    meter_w: FloatArray
    caps_term_w: FloatArray
    besides_w: FloatArray
    peak_w: FloatArray
    estimate_w: FloatArray
    blind: tuple[str, ...]
    untrusted_elements: frozenset[str]
    memory: LoadsMemory

    def unmanaged_w(self, site: SiteModel) -> Mapping[str, float]:
        """Load -> W for everything that has no managed node."""
        managed = set(site.node_rack.tolist())
        names = site.topology.loads
        return {n: float(self.load_w[i]) for i, n in enumerate(names) if i not in managed}

    def overheads_w(self, site: SiteModel) -> Mapping[str, float]:
        """Rack with nodes -> overhead that is not its nodes', W, as measured where not stated."""
        racks, names = site.facility.power.racks, site.topology.racks
        return {
            names[i]: racks[names[i]].overhead + float(self.besides_w[i])
            for i in np.unique(site.node_rack).tolist()
        }

    def peaks_w(self, site: SiteModel) -> Mapping[str, float]:
        """Rack with nodes -> 5-min metered peak, W, accuracy not added."""
        out = {}
        for i in np.unique(site.node_rack).tolist():
            if not math.isnan(self.peak_w[i]):
                out[site.topology.loads[i]] = float(self.peak_w[i])
        return out


def rack_loads(
    site: SiteModel,
    snapshot: Snapshot,
    in_force_w: FloatArray,
    memory: LoadsMemory,
    dead_feeds: BoolArray | None = None,
) -> RackLoads:
    """Loads of this cycle.

    Args:
        site: the site; its rack order is the topology's.
        snapshot: the present.
        in_force_w: float64[N], cap in force of each node, W per GPU.
        memory: of the cycle before.
        dead_feeds: bool[F], feeds that are believed to be without supply.
    """
    topology, power = site.topology, site.facility.power
    loads, racks = len(topology.loads), len(topology.racks)
    feed_w = drawn_w(snapshot.good(site.feed_meter))
    dead = np.zeros(len(feed_w), dtype=np.bool_) if dead_feeds is None else dead_feeds
    feed_w = np.where(dead & np.isnan(feed_w), 0.0, feed_w)
    metered = _sum_of_feeds(topology, feed_w)
    known = ~np.isnan(metered)
    sums = memory.sums.take(metered, snapshot.now_s, _settle_s(site), least=True)
    feeds = memory.feeds.take(feed_w, snapshot.now_s, _settle_s(site), least=True)
    settled = np.where(known, _settled(topology, feed_w, metered, sums, feeds), np.nan)
    peaks = memory.peaks.take(settled, snapshot.now_s, BUCKET_S, least=False)
    held = np.where(known, peaks.greatest(), memory.held_w)
    split, smooth = _split(site, feed_w, metered, dead, snapshot.now_s, memory)
    overheads = memory.overheads.learn(site, snapshot, metered)
    besides = overheads.besides_w(site)
    caps_term = caps_term_w(site, in_force_w) + besides
    managed = np.zeros(loads, dtype=np.bool_)
    managed[site.node_rack] = True
    from_meter = np.where(np.isnan(held), 0.0, held * (1.0 + power.meter_accuracy))
    # A reading in doubt may add to a load, never make it smaller.
    doubtful = np.fmax(feed_w, drawn_w(snapshot.usable(site.feed_meter)))
    seen = np.bincount(topology.feed_load, np.nan_to_num(doubtful), loads)
    from_meter = np.fmax(from_meter, seen * (1.0 + power.meter_accuracy) * ~known)
    lately = ~np.isnan(peaks.greatest())
    alone = np.where(lately, from_meter, np.maximum(from_meter, topology.nameplate_w))
    load_w = np.where(managed, np.maximum(from_meter, caps_term), alone)
    meter = metered[:racks]
    estimate = np.where(np.isnan(held[:racks]), caps_term[:racks], held[:racks])
    good = ~np.isnan(drawn_w(snapshot.good(site.feed_meter)))
    return RackLoads(
        load_w=load_w,
        split=split,
        meter_w=meter,
        caps_term_w=caps_term[:racks],
        besides_w=besides,
        peak_w=held,
        estimate_w=np.where(np.isnan(meter), estimate, meter),
        blind=_blind(site, good),
        untrusted_elements=_untrusted(site, snapshot, good),
        memory=LoadsMemory(sums, feeds, peaks, held, smooth, overheads, snapshot.now_s),
    )


def caps_term_w(site: SiteModel, caps_w: FloatArray) -> FloatArray:
    """float64[L]: stated overheads and caps of each load's nodes at the wall; 0 without a node."""
    power = site.facility.power
    factor = (1.0 + power.board_accuracy) / power.psu_efficiency
    node_w = site.overhead_w + factor * site.gpus * caps_w
    out = np.zeros(len(site.topology.loads))
    for i, name in enumerate(site.topology.racks):
        out[i] = power.racks[name].overhead
    np.add.at(out, site.node_rack, node_w)
    return out


def _sum_of_feeds(topology: Topology, feed_w: FloatArray) -> FloatArray:
    """float64[L]: sum over a load's feeds; NaN unless every feed has a reading."""
    return np.bincount(topology.feed_load, feed_w, len(topology.loads)).astype(np.float64)


def _settled(
    topology: Topology, feed_w: FloatArray, metered: FloatArray, sums: Extremes, feeds: Extremes
) -> FloatArray:
    """float64[L]: what a load surely draws: its metered power less what may be counted twice.

    Only a rise that the other feeds do not share can be a load that moved and is still counted
    where it was; a load that swings on all its feeds counts at its peaks. What the sum has kept
    up since every meter was read anew is no such thing any more.
    """
    loads = len(topology.loads)
    rise = np.nan_to_num(np.maximum(feed_w - feeds.least(), 0.0))
    shared = np.full(loads, np.inf)
    np.minimum.at(shared, topology.feed_load, rise)
    twice = np.bincount(topology.feed_load, rise - shared[topology.feed_load], loads)
    return np.asarray(np.fmax(sums.least(), metered - twice))


def _settle_s(site: SiteModel) -> float:
    """Width of a bucket in which the slowest feed meter may not have been read again, s."""
    meters = site.feed_meter[site.feed_meter >= 0]
    if len(meters) == 0:
        return 1.0
    return float(SETTLE_SHARE * site.table.stale_after_s[meters].max())


def _split(
    site: SiteModel,
    feed_w: FloatArray,
    metered: FloatArray,
    dead: BoolArray,
    now_s: float,
    memory: LoadsMemory,
) -> tuple[FloatArray, FloatArray]:
    """The split to use and the smoothed one to remember; a loss of a feed teaches nothing."""
    topology = site.topology
    whole = np.bincount(topology.feed_load, dead, len(metered)) == 0
    total = np.where(whole, metered, np.nan)[topology.feed_load]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total > LEAST_W, np.maximum(feed_w, 0.0) / total, np.nan)
    dt_s = 0.0 if memory.at_s is None else now_s - memory.at_s
    smooth = low_pass(memory.split, share, dt_s, SPLIT_TAU_S)
    every = (*site.facility.power.racks.values(), *site.facility.power.loads.values())
    stated = np.array([load.split is not None for load in every], dtype=np.bool_)
    normal = np.where(np.isnan(memory.split), topology.split, memory.split)
    doubt = _doubt(topology, memory.split)
    fallback = np.where(stated[topology.feed_load], normal, doubt[topology.feed_load])
    return np.where(np.isnan(share), fallback, smooth), smooth


def _doubt(topology: Topology, split: FloatArray) -> FloatArray:
    """float64[L]: how an unmeasured split is put to `Shares.of`: NaN, or -u.

    As skewed as it was measured it may still be. One feed with the part u, whichever it is, and
    the others with equal parts of the rest are at least as bad for every set of feeds, and
    whichever live, if none was measured to have less than such an equal part.

    Args:
        topology: the plant.
        split: float64[F], as it was measured; NaN: never.
    """
    least = np.ones(len(topology.loads))
    np.fmin.at(least, topology.feed_load, split)
    others = topology.feed_counts - 1
    share = np.where(others > 0, 1.0 - others * least, 0.0)
    return np.where(share > UNMEASURED_SHARE, -share, np.nan)


def _blind(site: SiteModel, good: BoolArray) -> tuple[str, ...]:
    """Racks with meters of which none answers, where they are 20 % or more under an element."""
    topology = site.topology
    racks, loads = len(topology.racks), len(topology.loads)
    has = np.bincount(topology.feed_load, site.feed_meter >= 0, loads)[:racks] > 0.0
    missing = has & (np.bincount(topology.feed_load, good, loads)[:racks] == 0.0)
    if not missing.any():
        return ()
    under = topology.carries_load[:, :racks]
    count = (under & has[None, :]).sum(axis=1)
    lost = (under & missing[None, :]).sum(axis=1)
    blind = (lost > 0) & (lost >= BLIND_SHARE * count)
    shown = missing & (under & blind[:, None]).any(axis=0)
    return tuple(topology.racks[i] for i in np.flatnonzero(shown))


def _untrusted(site: SiteModel, snapshot: Snapshot, good: BoolArray) -> frozenset[str]:
    """Elements whose own meter is not GOOD, or, without one, some meter below them is not."""
    topology = site.topology
    own = site.element_meter >= 0
    own_bad = own & np.isnan(snapshot.good(site.element_meter))
    feed_bad = (site.feed_meter >= 0) & ~good
    below_bad = (topology.carries & feed_bad[None, :]).any(axis=1)
    rows = np.flatnonzero(own_bad | (~own & below_bad))
    return frozenset(topology.elements[e] for e in rows)
