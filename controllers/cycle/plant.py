"""What is believed of the power plant in this cycle: what is out, and what that forbids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from controllers.cycle.state import CycleInput, Memory
from controllers.gpu_caps.force import BoolArray
from controllers.loads import LoadsMemory
from controllers.losses import Losses, LossMemory, believe
from facility.commands import Mode
from facility.maintenance import taken_out
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Shares, Topology, load_out

#: What people take out within this time is compiled ahead, ms.
AHEAD_MS: Final = 4000
#: A meter shows a lower cap within this time.
SETTLE_S: Final = 5.0


class _BySite:
    """Makes a site a cache key by identity."""

    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


@lru_cache(maxsize=32)
def _without(key: _BySite, out: tuple[str, ...]) -> Topology:
    topology = key.site.topology
    known = [n for n in out if n in topology.element_index or load_out(n) in topology.load_index]
    return topology.without(known)


@lru_cache(maxsize=32)
def _paths(key: _BySite, out: tuple[str, ...]) -> BoolArray:
    """bool[R, E]: elements that a rack loads in some case."""
    topology = _without(key, out)
    compiled = topology.compiled
    pair = compiled.feed_pair[compiled.entry_feed]
    used = np.zeros((len(topology.loads), len(topology.elements)), dtype=np.bool_)
    used[compiled.pair_load[pair], compiled.entry_element] = True
    return used[: len(topology.racks)]


@dataclass(frozen=True, eq=False)
class Plant:
    """What is believed of the plant in this cycle.

    Attributes:
        out: elements in maintenance or lost.
        holding: why only protection may move caps; "" if allocation is free.
    """

    topology: Topology
    out: tuple[str, ...]
    losses: Losses
    memory: LossMemory
    holding: str
    resecure_ms: int | None


def present_plant(site: SiteModel, memory: Memory, inputs: CycleInput) -> Plant:
    key = _BySite(site)
    declared = inputs.taken_out
    losses, loss_memory = believe(site, _without(key, declared), inputs.snapshot, memory.losses)
    wait = site.facility.power.resecure
    held: list[str] = []
    due: list[int] = []
    for element in losses.lost:
        if wait == "at once":
            continue
        if wait == "never":
            held.append(element)
            continue
        left_s = loss_memory.since_s[element] + float(wait) - inputs.now_s
        if left_s > 0.0:
            held.append(element)
            due.append(inputs.now_ms + round(left_s * 1000.0))
    names = ", ".join(name.upper() for name in held)
    verb = "is" if len(held) == 1 else "are"
    holding = f"{names} {verb} lost: caps hold until N+1 is restored" if held else ""
    out = tuple(sorted({*declared, *losses.lost}))
    _lay_out_ahead(site, memory, inputs, losses)
    return Plant(_without(key, out), out, losses, loss_memory, holding, min(due) if due else None)


def _lay_out_ahead(site: SiteModel, memory: Memory, inputs: CycleInput, losses: Losses) -> None:
    """Compile the plant of the cycles to come, one part a cycle, so that none pays for all of it.

    What is kept this way is the same whenever it is made; no decision follows from it.
    """
    soon = taken_out(inputs.maintenance, inputs.now_ms + AHEAD_MS)
    out = tuple(sorted({*soon, *losses.lost, *losses.coming}))
    if out == tuple(sorted({*inputs.taken_out, *losses.lost})):
        return
    topology = _without(_BySite(site), out)
    stood = all(element in memory.losses.signs_s for element in losses.coming)
    if stood and taken_out(inputs.maintenance, inputs.now_ms + AHEAD_MS // 2) == soon:
        Shares.of(topology)


def in_service(site: SiteModel, inputs: CycleInput) -> Topology:
    """The plant without what is in maintenance; what is believed lost still stands in it."""
    return _without(_BySite(site), inputs.taken_out)


def may_lower_all(site: SiteModel, inputs: CycleInput) -> bool:
    """Whether this controller may lower every cap now; asked in corrective mode only."""
    if site.facility.power.mode != "corrective" or inputs.epoch is None or not inputs.journal_ok:
        return False
    return all(site.mode_of(point, inputs.modes) is Mode.AUTO for point in site.cap_points)


def paths(site: SiteModel, out: tuple[str, ...]) -> BoolArray:
    """bool[R, E]: elements that a rack loads in some case."""
    return _paths(_BySite(site), out)


def forget_peaks(
    site: SiteModel, memory: LoadsMemory, lowered_s: FloatArray, now_s: float
) -> LoadsMemory:
    """Drop a rack's metered peak while a cap there comes down.

    What it drew under the old caps says nothing of the new ones; what it draws SETTLE_S after the
    read-back does, and a cap that does not hold shows then.
    """
    falling: BoolArray = np.zeros(len(site.topology.loads), dtype=np.bool_)
    falling[site.node_rack[np.flatnonzero(now_s - lowered_s <= SETTLE_S)]] = True
    if not falling.any():
        return memory
    held = np.where(falling, np.nan, memory.held_w)
    return replace(memory, peaks=memory.peaks.forget(falling), held_w=held)
