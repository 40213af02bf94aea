"""What people are told of a loop: its alarms and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controllers.base import Condition
from controllers.cooling.bounds import LoopBounds
from controllers.cooling.faults import DRY_S, FAILED, RUNNING, Leaks
from controllers.cooling.memory import LoopMemory
from controllers.cooling.reset import TRACK_S, Move
from facility.commands import Severity
from facility.site import LoopModel, SiteModel
from facility.snapshot import Snapshot

POWER_OFF_K = 4.0


def _pumps_lost(loop: LoopModel, snapshot: Snapshot) -> dict[str, list[int]]:
    """CDU -> pumps (from 1) that failed, or that are said to run and do not turn."""
    if not loop.pump_state.size:
        return {}
    states, turns = snapshot.good(loop.pump_state), snapshot.good(loop.pump_rotation)
    with np.errstate(invalid="ignore"):
        bad = (states == FAILED) | ((states == RUNNING) & (turns <= 0.0))
    found: dict[str, list[int]] = {}
    for cdu, pump in np.argwhere(bad).tolist():
        found.setdefault(loop.cdus[cdu], []).append(pump + 1)
    return found


def conditions(
    site: SiteModel,
    loop: LoopModel,
    snapshot: Snapshot,
    bounds: LoopBounds,
    memory: LoopMemory,
    move: Move,
    flow_why: str,
    leaks: Leaks,
    conflict: bool,
) -> tuple[Condition, ...]:
    """Everything about the loop that may be worth an alarm."""
    out: list[Condition] = []
    now = snapshot.now_s
    critical, warning = Severity.CRITICAL, Severity.WARNING
    if bounds.supply_c is not None and bounds.supply_c < bounds.dew_c + 1.0:
        out.append(
            Condition(
                "condensation_risk",
                loop.name,
                critical,
                f"{loop.name}: supply {bounds.supply_c:.1f} °C, dew point {bounds.dew_c:.1f} °C. "
                "The set-point is being raised; look for water on cold pipes.",
                page=True,
                numbers={"supply_c": bounds.supply_c, "dew_point_c": bounds.dew_c},
            )
        )
    if conflict:
        out.append(
            Condition(
                "overload",
                loop.name,
                warning,
                f"{loop.name}: no supply temperature is safe (L {bounds.low_c:.1f} °C above "
                f"U {bounds.high_c or 0.0:.1f} °C). Dry the air or cool the primary side; caps "
                "must be low until then.",
                numbers={"low_c": bounds.low_c, "high_c": bounds.high_c},
            )
        )
    off = memory.off_track_since_s
    if memory.unconfirmed or (off is not None and now - off >= TRACK_S):
        why = "the CDU does not take the set-point" if memory.unconfirmed else "it does not follow"
        out.append(
            Condition(
                "supply_not_tracking",
                loop.name,
                warning,
                f"{loop.name}: {why}; moves are frozen. Check valve, local mode and clamps.",
                numbers={"setpoint_c": memory.written_c, "supply_c": bounds.supply_c},
            )
        )
    if memory.foreign:
        out.append(
            Condition(
                "foreign_write",
                loop.name,
                warning,
                f"{loop.name}: the set-point is not what we last wrote "
                f"({memory.written_c or 0.0:.1f} °C). Somebody else writes it; it is left alone.",
            )
        )
    for cdu, pumps in _pumps_lost(loop, snapshot).items():
        feed = loop.config.cdus.get(cdu, cdu)
        which = f"pump {pumps[0]} stands" if len(pumps) == 1 else "all its pumps stand"
        if 1 < len(pumps) < loop.pump_state.shape[1]:
            which = f"pumps {', '.join(map(str, pumps))} stand"
        out.append(
            Condition(
                "pump_lost",
                cdu,
                critical,
                f"{cdu}: {which}. Caps are safe at the flow left; repair it before the next one "
                "fails.",
                page=True,
                about=(cdu, feed),
                numbers={"pumps_standing": float(len(pumps))},
            )
        )
    target, high = memory.target_c, bounds.high_c
    if target is not None and high is not None and not conflict and target >= high - 1e-6:
        out.append(
            Condition(
                "heat_rejection_short",
                loop.name,
                warning,
                f"{loop.name}: the cheapest supply temperature lies above what the chips bear "
                f"({high:.1f} °C): too warm outside for free cooling, expect more fan or chiller "
                "power.",
                numbers={"target_c": target, "high_c": high},
            )
        )
    if flow_why:
        seen = memory.flow_tripped_s
        text = f"{loop.name}: coolant flow lost ({flow_why}); caps are at their minimum."
        if (
            bounds.margin_k is not None
            and bounds.margin_k < POWER_OFF_K
            and seen is not None
            and now - seen >= 5.0
        ):
            text += f" Margin {bounds.margin_k:.1f} K and falling: stop jobs and power off now."
        out.append(
            Condition(
                "flow_lost",
                loop.name,
                critical,
                text,
                page=True,
                on_delay_s=0.0,
                about=tuple(loop.config.cdus.values()),
                numbers={"flow_lpm": bounds.flow_lpm, "margin_k": bounds.margin_k},
            )
        )
    out.extend(_leaks(site, leaks))
    if memory.lost_since_s is not None:
        published = {"dew point", "GPU margins"} & set(bounds.inputs_lost)
        behind = ("broker",) if published else ()
        out.append(
            Condition(
                "data_blind",
                loop.name,
                warning,
                f"{loop.name}: {', '.join(bounds.inputs_lost) or 'inputs'} not measured: "
                f"{move.text}.",
                about=(*loop.config.cdus.values(), *behind),
            )
        )
    return tuple(out)


def _leaks(site: SiteModel, leaks: Leaks) -> list[Condition]:
    out: list[Condition] = []
    for rack in np.flatnonzero(leaks.confirmed):
        name = site.racks[int(rack)]
        text = f"{name}: leak confirmed. Its caps are at their floor; isolate the rack."
        out.append(Condition("leak", name, Severity.CRITICAL, text, page=True, on_delay_s=0.0))
    for rack in np.flatnonzero(leaks.suspected):
        name = site.racks[int(rack)]
        text = f"{name}: one leak sensor is wet and nothing else agrees. Go and look."
        out.append(Condition("leak", name, Severity.WARNING, text))
    for name in (*(site.racks[int(r)] for r in np.flatnonzero(leaks.drying)), *leaks.drying_cdus):
        text = (
            f"{name}: a leak was confirmed. No cap rises until every sensor has been dry and read "
            f"for {DRY_S / 60.0:.0f} min. Go and look."
        )
        out.append(Condition("leak", name, Severity.CRITICAL, text, page=True, on_delay_s=0.0))
    for cdu, sure in leaks.cdus:
        severity = Severity.CRITICAL if sure else Severity.WARNING
        text = f"{cdu}: leak sensor wet" + (", confirmed." if sure else "; go and look.")
        out.append(Condition("leak", cdu, severity, text, page=sure))
    for device in leaks.faults:
        text = f"{device}: the leak sensor itself is broken; a leak there would not be seen."
        out.append(Condition("leak_sensor_fault", device, Severity.WARNING, text))
    return out


def facts(
    loop: LoopModel,
    bounds: LoopBounds,
    memory: LoopMemory,
    move: Move,
    present_c: float | None,
    margin_k: float,
) -> Mapping[str, Any]:
    """The loop's numbers for people; unknown is None."""
    supply = bounds.supply_c
    to_dew = None if supply is None else supply - bounds.dew_c
    at = present_c if present_c is not None else supply
    near_low = (
        at is not None and bounds.high_c is not None and (at - bounds.low_c < bounds.high_c - at)
    )
    return {
        "L": bounds.low_c,
        "U": bounds.high_c,
        "target": memory.target_c,
        "setpoint": present_c,
        "next_setpoint": move.value_c,
        "supply_c": supply,
        "flow_lpm": bounds.flow_lpm,
        "dew_point_c": bounds.dew_c,
        "dew_point_measured": not bounds.dew_lost,
        "margin_k_to_dew": to_dew,
        "margin_k_to_throttle": bounds.margin_k,
        "margin_k_required": margin_k,
        "active_bound": "L" if near_low else "U",
        "state": move.state,
        "text": f"{loop.name}: {move.text}",
        "low_because": bounds.low_because,
        "high_because": bounds.high_because,
    }
