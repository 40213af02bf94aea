"""Loss of flow and leaks: what must happen within a second, and what must not look like it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from controllers.cooling.bounds import LoopBounds, worst_flow_share
from controllers.cooling.memory import SAG_WIDTH_S, LoopMemory
from facility.points import Flaw, FloatArray, Grade, IntArray
from facility.site import LoopModel, SiteModel
from facility.snapshot import Snapshot

BoolArray = npt.NDArray[np.bool_]

#: A flow this far below the least that a single loss leaves is no flow.
DEAD_FLOW: Final = 0.7
HOT_K: Final = 3.0
SAME_READ_S: Final = 0.05
FINE_S: Final = 60.0
#: Sensors must have been dry and well read for so long before anything rises after a leak.
DRY_S: Final = 600.0
LEVEL_FALL: Final = 0.02
PRESSURE_FALL: Final = 0.2
RUNNING, FAILED = 1, 2
NOT_A_SENSOR_FAULT: Final = (int(Flaw.TIMEOUT), int(Flaw.STALE), int(Flaw.REFUSED))


def watch_flow(
    site: SiteModel,
    loop: LoopModel,
    snapshot: Snapshot,
    bounds: LoopBounds,
    memory: LoopMemory,
) -> tuple[str, LoopMemory]:
    """Why the loop's flow counts as lost ("" if it does not), latched for a minute.

    Two reads in a row of a dead flow or of no running pump; or at least three GPUs on at least two
    nodes hotter by 3 K than supply + R·power ever explained within 60 s, which no step of load,
    supply or flow can do: a chip follows each of them late.
    """
    config, now = loop.config, snapshot.now_s
    states = snapshot.good(loop.pump_state)
    stopped = bool(states.size) and not np.isnan(states).any() and not (states == RUNNING).any()
    least = DEAD_FLOW * worst_flow_share(config) * config.design_flow
    dry = bounds.flow_lpm is not None and bounds.flow_lpm < least
    # A cycle that was woken early sees the same reads again: they count once.
    read_s = now - float(_oldest_s(snapshot, loop.flow if dry else loop.pump_state))
    fresh = memory.flow_read_s is None or read_s > memory.flow_read_s + SAME_READ_S
    strikes = memory.flow_strikes + fresh if stopped or dry else 0
    hot = _too_hot(site, loop, snapshot, memory)
    why = ""
    if strikes >= 2:
        why = "no pump runs" if stopped else f"flow {bounds.flow_lpm or 0.0:.0f} L/min"
    elif hot:
        why = "GPUs hotter than their power explains"
    fine_since = None if why or strikes else memory.flow_fine_since_s or now
    tripped = bool(why) or (
        memory.flow_tripped and not (fine_since is not None and now - fine_since >= FINE_S)
    )
    since = None if not tripped else memory.flow_tripped_s or now
    if tripped and not why:
        why = "flow was lost: waiting for a minute of good readings"
    return why, replace(
        memory,
        flow_strikes=strikes,
        flow_read_s=read_s if strikes and fresh else memory.flow_read_s if strikes else None,
        flow_tripped=tripped,
        flow_tripped_s=since,
        flow_fine_since_s=fine_since,
    )


def _oldest_s(snapshot: Snapshot, indexes: IntArray) -> float:
    """Age of the oldest of some points, s; 0 where there is none."""
    return float(snapshot.ages_of(indexes[indexes >= 0]).max(initial=0.0))


def _too_hot(
    site: SiteModel,
    loop: LoopModel,
    snapshot: Snapshot,
    memory: LoopMemory,
) -> bool:
    if not len(loop.nodes):
        return False
    temperature = snapshot.good(site.loop_gpus[loop.name].temperature)
    explained = memory.peaks.greatest().reshape(temperature.shape)
    with np.errstate(invalid="ignore"):
        hot = temperature > explained + HOT_K
    return int(hot.sum()) >= 3 and int(hot.any(axis=1).sum()) >= 2


@dataclass(frozen=True, eq=False)
class Leaks:
    """What the leak sensors of a loop's racks and CDUs say.

    Attributes:
        confirmed: bool[R], two sensors, or one and a fall of level or pressure.
        suspected: bool[R], one sensor wet.
        cdus: CDU names with a wet sensor, and whether that is confirmed.
        faults: devices whose leak sensor itself is broken.
        falling: a level or pressure fell.
        drying: bool[R], a confirmed leak was here; the sensors have not been dry for long enough.
        drying_cdus: CDUs of which that is so.
    """

    confirmed: BoolArray
    suspected: BoolArray
    cdus: tuple[tuple[str, bool], ...]
    faults: tuple[str, ...]
    falling: bool
    drying: BoolArray
    drying_cdus: tuple[str, ...]


def _broken(snapshot: Snapshot, indexes: IntArray) -> list[int]:
    """Points whose sensor, not its link, is at fault."""
    there = indexes[indexes >= 0]
    packed = snapshot.quality[there]
    broken = (packed & 0b11 != int(Grade.GOOD)) & ~np.isin(packed >> 2, NOT_A_SENSOR_FAULT)
    return [int(i) for i in there[broken]]


def watch_leaks(
    site: SiteModel, loop: LoopModel, snapshot: Snapshot, memory: LoopMemory
) -> tuple[Leaks, LoopMemory]:
    """Tell a leak from a broken sensor."""
    levels: FloatArray = np.concatenate(
        [snapshot.good(loop.level), snapshot.good(loop.pressure)]
    ).astype(np.float64)
    before = memory.levels.greatest()
    cdus = len(loop.cdus)
    with np.errstate(invalid="ignore"):
        fell = before - levels
        falling = bool((fell[:cdus] > LEVEL_FALL).any()) or bool(
            (fell[cdus:] > PRESSURE_FALL * np.abs(before[cdus:])).any()
        )
    wet_cdus = snapshot.good(loop.leak) >= 0.5
    sensors, of_rack = site.loop_leaks[loop.name]
    wet = np.bincount(of_rack, snapshot.good(sensors) >= 0.5, len(site.racks))
    suspected: BoolArray = wet == 1
    confirmed: BoolArray = (wet >= 2) | (suspected & (falling or bool(wet_cdus.any())))
    broken = (*_broken(snapshot, loop.leak), *_broken(snapshot, sensors))
    faults = [site.table.specs[i].id.device for i in broken]
    anywhere = bool(suspected.any() or confirmed.any())
    sure = falling or anywhere or int(wet_cdus.sum()) >= 2
    wet_names = tuple((loop.cdus[int(i)], sure) for i in np.flatnonzero(wet_cdus))
    # A level that fell while something is wet stays the reference until people have looked.
    kept = memory.levels
    if not (falling and (anywhere or wet_names)):
        kept = kept.take(levels, snapshot.now_s, SAG_WIDTH_S, least=False)
    until_s = _latched(site, loop, snapshot, memory, np.append(confirmed, wet_cdus & sure))
    held = until_s > snapshot.now_s
    drying = held[: len(site.racks)] & ~confirmed
    drying_cdus = tuple(
        name for name, on in zip(loop.cdus, held[len(site.racks) :], strict=True) if on
    )
    leaks = Leaks(
        confirmed,
        suspected & ~confirmed & ~drying,
        wet_names,
        tuple(faults),
        falling,
        drying,
        tuple(name for name in drying_cdus if (name, True) not in wet_names),
    )
    return leaks, replace(memory, levels=kept, leak_until_s=np.where(held, until_s, np.nan))


def _latched(
    site: SiteModel, loop: LoopModel, snapshot: Snapshot, memory: LoopMemory, confirmed: BoolArray
) -> FloatArray:
    """float64[R + CDUs]: until when a confirmed leak there forbids raises; NaN: none did.

    A sensor that is wet, or that cannot be read, begins the time anew.
    """
    racks = len(site.racks)
    dry = np.ones(racks + len(loop.cdus), dtype=np.bool_)
    sensors, of_rack = site.loop_leaks[loop.name]
    dry[:racks] = np.bincount(of_rack, ~(snapshot.good(sensors) < 0.5), racks) == 0
    dry[racks:] = snapshot.good(loop.leak) < 0.5
    latched = confirmed | (memory.leak_until_s > snapshot.now_s)
    return np.where(latched & ~dry, snapshot.now_s + DRY_S, memory.leak_until_s)


def forget_leaks(memory: LoopMemory, racks: BoolArray, cdus: bool) -> LoopMemory:
    """Somebody took these racks, or the CDUs, out of automation: a leak there is theirs to judge.

    Args:
        memory: of the loop.
        racks: bool[R], not in auto.
        cdus: whether the loop itself is not in auto.
    """
    theirs = np.append(racks, np.full(len(memory.leak_until_s) - len(racks), cdus))
    return replace(memory, leak_until_s=np.where(theirs, np.nan, memory.leak_until_s))
