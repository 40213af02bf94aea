"""What the cooling controller remembers of one loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controllers.blocks import Extremes
from facility.points import FloatArray
from facility.site import LoopModel, SiteModel

# One bucket more than the window holds, as the newest is only begun.
U_BUCKETS, U_WIDTH_S = 31, 10.0
CAP_BUCKETS, CAP_WIDTH_S = 6, 10.0
PEAK_BUCKETS, PEAK_WIDTH_S = 6, 10.0
FLOW_BUCKETS, FLOW_WIDTH_S = 16, 60.0
SAG_BUCKETS, SAG_WIDTH_S = 10, 60.0


@dataclass(frozen=True, eq=False)
class LoopMemory:
    """One loop's past; G' = GPUs of the loop, flattened [nodes of the loop, G].

    Attributes:
        slow_w: float64[G'], power low-passed at the GPU's thermal time; NaN: never seen.
        ceilings: least U_i of 5 min per GPU; held_u: float64[G'], the last there was; NaN: never.
        caps: least thermal cap of a minute per GPU.
        peaks: hottest that supply, flow and power explain, of a minute, per GPU.
        flows: greatest flow of the loop in 15 min: what a pump that has just stopped once gave.
        flow_lpm: last good flow of the loop.
        dew_c, dew_s: last good worst dew point and when.
        dew_hours: highest dew point of each of the last 24 hours, newest first.
        dew_hour: UTC hour of the newest entry.
        written_c, written_s: last set-point sent, and when; writes_s: sends of the last hour.
        lost_since_s: since when an input has been missing.
        off_track_since_s: since when the supply has not followed the set-point.
        unconfirmed: the last write did not read back in time; confirmed: it once did.
        foreign: somebody else wrote the set-point.
        flow_strikes: consecutive reads of a dead flow, flow_read_s: when the last one was read;
            flow_tripped, flow_fine_since_s: its latch.
        leak_until_s: float64[R + CDUs], until when a leak there forbids raises; NaN: none.
        levels: highest level and pressure of 10 min, per CDU, to see a fall.
    """

    slow_w: FloatArray
    ceilings: Extremes
    held_u: FloatArray
    caps: Extremes
    peaks: Extremes
    flows: Extremes
    levels: Extremes
    leak_until_s: FloatArray
    seen_s: float | None = None
    flow_lpm: float | None = None
    dew_c: float | None = None
    dew_s: float | None = None
    dew_hours: tuple[float, ...] = ()
    dew_hour: int | None = None
    target_c: float | None = None
    target_s: float | None = None
    written_c: float | None = None
    written_s: float | None = None
    writes_s: tuple[float, ...] = ()
    lost_since_s: float | None = None
    off_track_since_s: float | None = None
    unconfirmed: bool = False
    confirmed: bool = False
    foreign: bool = False
    flow_strikes: int = 0
    flow_read_s: float | None = None
    flow_tripped: bool = False
    flow_tripped_s: float | None = None
    flow_fine_since_s: float | None = None

    @classmethod
    def empty(cls, site: SiteModel, loop: LoopModel) -> LoopMemory:
        """Nothing seen yet."""
        gpus = len(loop.nodes) * (site.gpu_power.shape[1] if site.nodes else 0)
        return cls(
            np.full(gpus, np.nan),
            Extremes.empty(U_BUCKETS, gpus),
            np.full(gpus, np.nan),
            Extremes.empty(CAP_BUCKETS, gpus),
            Extremes.empty(PEAK_BUCKETS, gpus),
            Extremes.empty(FLOW_BUCKETS, 1),
            Extremes.empty(SAG_BUCKETS, 2 * len(loop.cdus)),
            np.full(len(site.racks) + len(loop.cdus), np.nan),
        )
