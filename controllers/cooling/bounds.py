"""The interval [L, U] in which a loop's supply temperature is safe, and the caps it allows.

L keeps every surface above the worst dew point; U keeps every GPU away from slowdown when it draws
all that its cap allows at the flow left after the worst single loss. Control law 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from controllers.blocks import low_pass
from controllers.cooling.air import dew_point_c
from controllers.cooling.memory import (
    CAP_WIDTH_S,
    FLOW_WIDTH_S,
    PEAK_WIDTH_S,
    U_WIDTH_S,
    LoopMemory,
)
from facility.config import CoolingSettings, Loop
from facility.points import FloatArray
from facility.site import LoopModel, SiteModel
from facility.snapshot import Snapshot

#: Leakage loop gain: a GPU's temperature rises by up to this much per K of supply.
LOOP_GAIN: Final = 1.15
THERMAL_S: Final = 12.0
#: kW carried per L/min and K of coolant.
KW_PER_LPM_K: Final = 0.0668
DEW_HOLD_S: Final = 600.0
#: A flow this little above what the loss of a pump leaves is one after such a loss.
LOSS_SEEN: Final = 1.03
FOREVER_MARGIN_K: Final = 3.0


@dataclass(frozen=True, slots=True)
class LoopBounds:
    """What the present readings allow.

    Attributes:
        low_c, high_c: L and U; high_c is None while no GPU's margin was ever seen.
        low_because, high_because: which limit is which, with numbers.
        dew_c: worst dew point used; dew_lost: it is not measured now.
        margin_k: least margin to slowdown seen now, None if none.
        inputs_lost: which inputs are missing now.
        flow_lpm: of the loop, None if unknown.
        loss_spent: a pump's flow or more has just gone: U and the caps stand on the loss that
            has happened, so nothing may rise.
    """

    low_c: float
    low_because: str
    high_c: float | None
    high_because: str
    dew_c: float
    dew_lost: bool
    margin_k: float | None
    inputs_lost: tuple[str, ...]
    flow_lpm: float | None
    supply_c: float | None
    loss_spent: bool = False


#: Less than this share of the design flow is reckoned with as this much.
LEAST_FLOW = 1e-3


def resistance(loop: Loop, flow_lpm: float) -> float:
    """K/W of one GPU at the loop's flow; part of it falls with flow."""
    share, exponent = loop.gpu_flow_share, loop.gpu_flow_exponent
    ratio = loop.design_flow / max(flow_lpm, LEAST_FLOW * loop.design_flow)
    return float(loop.gpu_resistance * ((1.0 - share) + share * ratio**exponent))


def worst_flow_share(loop: Loop) -> float:
    """Part of the flow left after the worst single cooling or power loss."""
    return min(loop.flow_one_pump_lost, loop.flow_one_cdu_lost)


def flow_left(flow_lpm: float, lately_lpm: float, worst_share: float) -> float:
    """V': the flow after the worst single loss, L/min.

    A loss that has just happened is that single loss: it is not feared a second time until a
    quarter of an hour has passed (as with power, where N+1 on what remains is a separate step and
    nothing rises before it).

    Args:
        flow_lpm: of the loop now.
        lately_lpm: greatest of the last 15 min; NaN if none was seen.
        worst_share: part of the flow that the worst loss leaves.
    """
    reference = flow_lpm if math.isnan(lately_lpm) else max(flow_lpm, lately_lpm)
    return min(flow_lpm, worst_share * reference)


def margin_of_error_k(loop: Loop, settings: CoolingSettings) -> float:
    """w: set-point undershoot plus the supply's rise on the loss of a CDU."""
    return settings.undershoot + loop.supply_rise_on_cdu_loss


def _supply(loop: LoopModel, snapshot: Snapshot) -> float | None:
    """Warmest measured supply: what the hottest GPU gets."""
    values = snapshot.good(loop.supply)
    return None if np.isnan(values).all() else float(np.nanmax(values))


def _flow(loop: LoopModel, snapshot: Snapshot) -> float | None:
    values = snapshot.good(loop.flow)
    return None if values.size == 0 or np.isnan(values).any() else float(values.sum())


def dew_point(
    loop: LoopModel, snapshot: Snapshot, memory: LoopMemory, design_c: float
) -> tuple[float, bool, LoopMemory]:
    """Worst dew point of the loop, whether it is not measured now, and the memory after it.

    Lost: the last good maximum for 10 min, then the site's design dew point (never below the
    last good one).
    """
    air = dew_point_c(snapshot.good(loop.dew_temperature), snapshot.good(loop.dew_humidity))
    now_s, hour = snapshot.now_s, snapshot.now_ms // 3_600_000
    if air.size and not np.isnan(air).all():
        worst = float(np.nanmax(air))
        # One sensor less must not lower the floor: what it last said still counts for a while.
        if np.isnan(air).any() and memory.dew_c is not None and memory.dew_s is not None:
            worst = max(worst, memory.dew_c if now_s - memory.dew_s <= DEW_HOLD_S else design_c)
            seen_s = memory.dew_s if now_s - memory.dew_s <= DEW_HOLD_S else now_s
        else:
            seen_s = now_s
        hours, at = memory.dew_hours, memory.dew_hour
        if at is None or hour > at:
            gap = 1 if at is None else min(hour - at, 24)
            hours = (worst, *((float("-inf"),) * (gap - 1)), *hours)[:24]
        else:
            hours = (max(hours[0], worst), *hours[1:])
        return (
            worst,
            False,
            replace(
                memory, dew_c=worst, dew_s=seen_s, dew_hours=hours, dew_hour=max(hour, at or hour)
            ),
        )
    if memory.dew_c is not None and memory.dew_s is not None and now_s - memory.dew_s <= DEW_HOLD_S:
        return memory.dew_c, True, memory
    return max(design_c, memory.dew_c if memory.dew_c is not None else design_c), True, memory


def floor_c(
    loop: Loop, settings: CoolingSettings, dew_c: float, hours: Sequence[float], design_c: float
) -> tuple[float, str]:
    """L and what sets it."""
    above = settings.dew_margin + settings.sensor_uncertainty + settings.undershoot
    candidates = [
        (loop.supply_min, f"the loop's own minimum {loop.supply_min:.1f} °C"),
        (dew_c + above, f"dew point {dew_c:.1f} °C + {above:.1f} K"),
    ]
    if not loop.dew_point_override:
        if hours:
            highest = max(hours)
            candidates.append(
                (highest + FOREVER_MARGIN_K, f"24-h highest dew point {highest:.1f} °C + 3 K")
            )
        candidates.append(
            (design_c + FOREVER_MARGIN_K, f"design dew point {design_c:.1f} °C + 3 K")
        )
    return max(candidates, key=lambda c: c[0])


def _worst_of_type(
    values: FloatArray, alike: Sequence[npt.NDArray[np.bool_]], held: FloatArray
) -> FloatArray:
    """Fill NaN of existing GPUs with the least value of the same GPU type.

    A type of which nothing is known any more keeps the least of what it last had.
    """
    gone = np.isnan(values)
    if not gone.any():
        return values
    out = values.copy()
    for mine in alike:
        lacks = mine & gone
        if not lacks.any():
            continue
        known = out[mine] if not gone[mine].all() else held[mine]
        if not np.isnan(known).all():
            out[lacks] = np.nanmin(known)
    return out


def observe(
    site: SiteModel,
    loop: LoopModel,
    snapshot: Snapshot,
    caps_w: FloatArray,
    rack_w: FloatArray,
    memory: LoopMemory,
    settings: CoolingSettings,
    setpoint_c: float | None,
) -> tuple[LoopBounds, FloatArray, LoopMemory]:
    """L, U and the thermal cap of each node of the loop.

    Args:
        site: the site.
        loop: which loop.
        snapshot: the present.
        caps_w: float64[N], caps in force (W per GPU).
        rack_w: float64[R], racks' power at their caps.
        memory: of the cycle before.
        settings: of the controller.
        setpoint_c: where the supply is heading, None if unknown.

    Returns:
        Bounds; float64[M] thermal caps in W per GPU (NaN: never seen); memory.
    """
    config, design = loop.config, site.facility.site.design_dew_point
    dew_c, dew_lost, memory = dew_point(loop, snapshot, memory, design)
    low, low_because = floor_c(config, settings, dew_c, memory.dew_hours, design)
    supply, flow = _supply(loop, snapshot), _flow(loop, snapshot)
    last = flow if flow is not None else memory.flow_lpm
    worst = worst_flow_share(config)
    # An unknown flow credits the least and charges the most that any flow so far would.
    hi = flow if flow is not None else max(config.design_flow, last or 0.0)
    lo = flow if flow is not None else min(worst * config.design_flow, last or math.inf)
    flows = memory.flows.take(
        np.array([np.nan if flow is None else flow]), snapshot.now_s, FLOW_WIDTH_S, least=False
    )
    lately = float(flows.greatest()[0])
    left = flow_left(lo, lately, worst)
    spent = lo <= LOSS_SEEN * config.flow_one_pump_lost * lately
    r_now, r_left = resistance(config, hi), resistance(config, left)

    gpus = site.loop_gpus[loop.name]
    there = gpus.there
    power, margin = snapshot.good(gpus.power), snapshot.good(gpus.margin)
    cap = np.repeat(caps_w[loop.nodes], site.gpu_power.shape[1] if site.nodes else 0)
    dt = 0.0 if memory.seen_s is None else snapshot.now_s - memory.seen_s
    slow = low_pass(memory.slow_w, power, dt, THERMAL_S)
    steady = np.abs(power - slow) <= 0.05 * cap
    w = margin_of_error_k(config, settings)
    room = np.where(steady, margin - settings.margin, np.nan)
    x = room - (r_left * 1.05 * cap - r_now * slow)
    ceiling = (supply if supply is not None else np.nan) + np.where(x > 0, x / LOOP_GAIN, x)
    heading = 0.0
    if supply is not None:
        heading = max((setpoint_c if setpoint_c is not None else supply), low) - supply
    warming = LOOP_GAIN * max(heading, 0.0)
    allowed = (room - warming - w + r_now * slow) / (1.05 * r_left)

    now = snapshot.now_s
    ceilings = memory.ceilings.take(ceiling, now, U_WIDTH_S, least=True)
    caps = memory.caps.take(allowed, now, CAP_WIDTH_S, least=True)
    explained = (np.nan if supply is None else supply) + power * resistance(
        config, config.design_flow if flow is None else flow
    )
    peaks = memory.peaks.take(explained, now, PEAK_WIDTH_S, least=False)
    recent = ceilings.least()
    held = np.where(np.isnan(recent), memory.held_u, recent)
    least_u = _worst_of_type(recent, gpus.alike, held)
    heat_kw = float((rack_w[loop.racks] * loop.shares).sum()) / 1e3
    # A meter that reads exactly no flow must not end the controller that has to act on it.
    still = LEAST_FLOW * config.design_flow
    return_c = config.return_max - heat_kw / (KW_PER_LPM_K * max(left, still))
    high, high_because = None, "no GPU has shown its margin yet"
    if there.any() and not np.isnan(least_u).all():
        ranked: Mapping[str, float] = {
            f"the loop's own maximum {config.supply_max:.1f} °C": config.supply_max,
            f"return limit {config.return_max:.0f} °C at {heat_kw:.0f} kW": return_c,
            _hottest(site, loop, least_u, settings.margin): float(np.nanmin(least_u)),
        }
        high_because = min(ranked, key=lambda k: ranked[k])
        high = ranked[high_because] - w
    least_cap = _worst_of_type(caps.least(), gpus.alike, np.full(len(there), np.nan))
    per_node = np.fmin.reduce(
        least_cap.reshape(len(loop.nodes), site.gpu_power.shape[1]), axis=1, initial=np.inf
    )
    per_node = np.where(np.isinf(per_node), np.nan, per_node)
    lost = tuple(
        name
        for name, missing in (
            ("supply temperature", supply is None),
            ("flow", flow is None),
            ("dew point", dew_lost),
            ("GPU margins", bool(there.any()) and bool(np.isnan(margin[there]).all())),
        )
        if missing
    )
    seen = margin[there]
    margin_k = None if seen.size == 0 or np.isnan(seen).all() else float(np.nanmin(seen))
    bounds = LoopBounds(
        low, low_because, high, high_because, dew_c, dew_lost, margin_k, lost, flow, supply, spent
    )
    return (
        bounds,
        per_node,
        replace(
            memory,
            slow_w=slow,
            ceilings=ceilings,
            held_u=held,
            caps=caps,
            peaks=peaks,
            flows=flows,
            seen_s=now,
            flow_lpm=last,
        ),
    )


def _hottest(site: SiteModel, loop: LoopModel, least_u: FloatArray, margin_k: float) -> str:
    gpu = int(np.nanargmin(least_u))
    node, index = divmod(gpu, site.gpu_power.shape[1])
    return f"{site.nodes[int(loop.nodes[node])]} gpu {index} keeps {margin_k:.0f} K to slowdown"
