"""What racks draw besides their boards, measured where the file does not state it.

Control law 1, "Load of a rack, live": O stated, or p99 of measured. Measured is the rack's meter
less its boards at the wall, as means by the minute; of every ten minutes the greatest counts, and
of a day of those the p99. Before an hour of them is known, a rack's nameplate bounds what it draws
with every cap at its board's maximum: what is then left for overhead is the worst there can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np

from controllers.kept import Kept
from facility.points import FloatArray, IntArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

MINUTE_S: Final = 60.0
#: Minutes of which the greatest counts, how many such are kept (a day), and how many are enough.
TEN: Final = 10
KEPT: Final = 144
ENOUGH: Final = 6
QUANTILE: Final = 0.99


@dataclass(frozen=True, eq=False)
class Unstated:
    """Racks of which the file states no overhead, or none of one of their nodes: U of them.

    Attributes:
        rows: int64[U], their rows among the loads.
        stated_w: float64[U], what the file does state of it, W.
        most_w: float64[U], what their nameplate leaves for overhead, never less than stated.
        nodes: int64[M], their nodes; rack: int64[M], which of the U each hangs in.
        keys: of each, in words that change with its nodes.
    """

    rows: IntArray
    stated_w: FloatArray
    most_w: FloatArray
    nodes: IntArray
    rack: IntArray
    keys: tuple[str, ...]


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=8)
def _unstated(key: _BySite) -> Unstated:
    site, power = key.site, key.site.facility.power
    configs = [site.facility.nodes[name] for name in site.nodes]
    factor = (1.0 + power.board_accuracy) / power.psu_efficiency
    rows: list[int] = []
    nodes: list[int] = []
    racks: list[int] = []
    stated: list[float] = []
    most: list[float] = []
    keys: list[str] = []
    for row, name in enumerate(site.racks):
        rack = power.racks[name]
        mine = np.flatnonzero(site.node_rack == row).tolist()
        fields = [rack.model_fields_set, *(configs[i].model_fields_set for i in mine)]
        if not mine or all("overhead" in given for given in fields):
            continue
        known_w = rack.overhead + float(site.overhead_w[mine].sum())
        boards_w = factor * float((site.gpus[mine] * site.max_cap_w[mine]).sum())
        nodes += mine
        racks += [len(rows)] * len(mine)
        rows.append(row)
        stated.append(known_w)
        most.append(max(float(site.topology.nameplate_w[row]) - boards_w, known_w))
        parts = (f"{site.nodes[i]}x{site.gpus[i]} {configs[i].gpu}" for i in mine)
        keys.append(f"{name}: {', '.join(parts)}")
    return Unstated(
        np.array(rows, dtype=np.int64),
        np.array(stated, dtype=np.float64),
        np.array(most, dtype=np.float64),
        np.array(nodes, dtype=np.int64),
        np.array(racks, dtype=np.int64),
        tuple(keys),
    )


def unstated(site: SiteModel) -> Unstated:
    """Racks whose overhead is to be measured, found once."""
    return _unstated(_BySite(site))


@dataclass(frozen=True, eq=False)
class OverheadMemory:
    """What has been measured of the U racks.

    Attributes:
        sums, counts: float64[U], W and looks of the minute that runs.
        greatest: float64[KEPT, U], greatest mean of each ten minutes, newest first; NaN: none.
        minutes: how many whole minutes the newest ten have so far.
        told_w: float64[U], what the controller before had measured; NaN: nothing, or outdated.
        started_s: when the minute began; None before the first look.
    """

    sums: FloatArray = field(default_factory=lambda: np.zeros(0))
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))
    greatest: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    minutes: int = 0
    told_w: FloatArray = field(default_factory=lambda: np.zeros(0))
    started_s: float | None = None

    @classmethod
    def empty(cls, site: SiteModel) -> OverheadMemory:
        """Nothing measured yet."""
        n = len(unstated(site).rows)
        nothing = np.full((KEPT if n else 0, n), np.nan)
        return cls(np.zeros(n), np.zeros(n), nothing, 0, np.full(n, np.nan))

    def recalled(self, site: SiteModel, kept: Kept | None) -> OverheadMemory:
        """With what the controller before left of racks that hold the same nodes as then."""
        if kept is None or not len(self.told_w):
            return self
        told = [kept.overhead_w.get(key, np.nan) for key in unstated(site).keys]
        return replace(self, told_w=np.array(told, dtype=np.float64))

    def learn(self, site: SiteModel, snapshot: Snapshot, metered_w: FloatArray) -> OverheadMemory:
        """One look later.

        Args:
            site: the site.
            snapshot: the present.
            metered_w: float64[L], what GOOD meters read of each load; NaN: not known.
        """
        if not len(self.told_w):
            return self
        now_s = snapshot.now_s
        started = now_s if self.started_s is None else self.started_s
        turns = int((now_s - started) // MINUTE_S)
        sums, counts, greatest, minutes = self.sums, self.counts, self.greatest, self.minutes
        told = self.told_w
        if turns > 0:
            with np.errstate(invalid="ignore"):
                mean = np.where(counts > 0.0, sums / np.maximum(counts, 1.0), np.nan)
            greatest = np.concatenate([np.fmax(greatest[:1], mean), greatest[1:]])
            minutes += turns
            for _ in range(min(minutes // TEN, KEPT)):
                greatest = np.concatenate([np.full((1, len(told)), np.nan), greatest[:-1]])
            minutes %= TEN
            sums, counts = np.zeros(len(told)), np.zeros(len(told))
            started += turns * MINUTE_S
            told = np.where(_enough(greatest), np.nan, told)
        found = _besides_boards(site, snapshot, metered_w)
        seen = ~np.isnan(found)
        sums = sums + np.where(seen, found, 0.0)
        return OverheadMemory(sums, counts + seen, greatest, minutes, told, started)

    def measured_w(self) -> FloatArray:
        """float64[U]: p99 of what was measured, of an hour or more; NaN before that."""
        out = np.where(_enough(self.greatest), np.nan, self.told_w)
        known = np.flatnonzero(_enough(self.greatest))
        if len(known):
            part = self.greatest[:, known]
            out[known] = np.nanquantile(part, QUANTILE, axis=0, method="higher")
        return out

    def besides_w(self, site: SiteModel) -> FloatArray:
        """float64[L]: overhead that counts beyond what the file states, W."""
        out = np.zeros(len(site.topology.loads))
        if len(self.told_w):
            u = unstated(site)
            known = self.measured_w()
            least = np.fmax.reduce(self.greatest, axis=0, initial=0.0)
            least = np.where(np.isnan(known), least, 0.0)
            counts = np.maximum(np.where(np.isnan(known), u.most_w, known), u.stated_w)
            out[u.rows] = np.maximum(counts, least) - u.stated_w
        return out

    def to_keep(self, site: SiteModel) -> Mapping[str, float]:
        """Composition of each rack -> measured overhead, W."""
        if not len(self.told_w):
            return {}
        found = zip(unstated(site).keys, self.measured_w().tolist(), strict=True)
        return {key: watts for key, watts in found if watts == watts}


def _enough(greatest: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """bool[U]: an hour has been measured."""
    return np.asarray((~np.isnan(greatest)).sum(axis=0) >= ENOUGH)


def _besides_boards(site: SiteModel, snapshot: Snapshot, metered_w: FloatArray) -> FloatArray:
    """float64[U]: meter less boards at the wall, W; NaN where one is unknown or they contradict."""
    u, power = unstated(site), site.facility.power
    there = site.gpu_mask[u.nodes] > 0.0
    boards = np.where(there, snapshot.good(site.gpu_power[u.nodes]), 0.0).sum(axis=1)
    wall_w = np.bincount(u.rack, boards, len(u.rows)) / power.psu_efficiency
    meter_w = metered_w[u.rows]
    doubt_w = power.meter_accuracy * np.abs(meter_w) + power.board_accuracy * wall_w
    with np.errstate(invalid="ignore"):
        besides = np.where(meter_w - wall_w < -doubt_w, np.nan, meter_w - wall_w)
    return np.asarray(np.maximum(besides, 0.0))
