"""Conditions of devices, power and rooms, read from a snapshot and from what was concluded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from controllers.alarms.hands import HALL, Hands, released_conditions
from controllers.alarms.machine import BROKER
from controllers.base import Condition
from controllers.blocks import above
from controllers.headroom import Headroom, kilowatts, spareless
from controllers.losses import Losses, footprints
from controllers.wording import lacking
from facility.commands import Ack, Mode, Outcome, Severity
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

#: NVML clock-event bits: SW thermal, HW thermal slowdown, HW power brake.
THERMAL_BITS = 0x20 | 0x40
UPS_ON_BATTERY = 5.0
#: How long a controller that came back tells of its absence.
SAID_S = 20.0
#: Agent state codes "holding" and "fallback".
AGENT_ALONE = (2.0, 3.0)


def things_dead(site: SiteModel, losses: Losses) -> dict[str, str]:
    """Element, load or device -> key of the loss that explains it.

    A rack's PDU on a dead feed is dead; a rack is explained as soon as one of its feeds is.
    """
    prints = footprints(site.topology)
    found: dict[str, str] = {}
    for lost in losses.lost:
        key = f"element_lost:{lost}"
        print_ = prints.get(lost)
        if print_ is None:
            continue
        for i in np.flatnonzero(print_.dead):
            name = site.topology.elements[int(i)]
            if name != lost:
                found.setdefault(name, key)
            device = site.element_device[int(i)]
            if device is not None:
                found.setdefault(device, key)
        for column in np.flatnonzero(print_.feeds):
            load, feed = site.topology.feeds[int(column)]
            found.setdefault(f"{load}/{feed}", key)
            device = site.feed_device[int(column)]
            if device is not None:
                found.setdefault(device, key)
            if load not in site.rack_index:
                found.setdefault(load, key)
    return found


def absence_conditions(
    site: SiteModel,
    snapshot: Snapshot,
    modes: Mapping[str, Mode],
    away_s: float | None,
    running_s: float,
) -> list[Condition]:
    """`control_lost`: nobody renewed the agents' leases for longer than a lease.

    Args:
        site: the site.
        snapshot: the present.
        modes: scope -> mode; a node that nobody means to lease is not missed.
        away_s: how long no controller ran before this run, if that is known.
        running_s: for how long this one has run; it tells for SAID_S.
    """
    meant = site.cap_activity(modes) == Mode.AUTO.activity
    state = snapshot.good(site.node_agent_state)
    alone = int((np.isin(state, AGENT_ALONE) & meant).sum())
    away = away_s if away_s is not None and running_s < SAID_S else 0.0
    if not alone and away <= site.facility.agents.lease:
        return []
    text = f"{alone} of {len(site.nodes)} nodes hold their caps by themselves. " if alone else ""
    if away > 0.0:
        text += f"No controller ran for {away:.0f} s; the agents kept their caps. "
    text += "Find out why it was away."
    # Agents that could not be heard held their caps: that is the broker's story, not one of ours.
    behind = () if away > 0.0 else (BROKER,)
    return [
        Condition(
            "control_lost",
            "hall",
            Severity.WARNING,
            text,
            page=True,
            on_delay_s=0.0 if away > 0.0 else site.facility.agents.lease,
            about=behind,
        )
    ]


def _left(headroom: Headroom) -> str:
    """What is left after a loss, in a sentence."""
    over_w = np.nan_to_num(headroom.normal_w - headroom.limit_w, nan=-np.inf)
    most = int(np.argmax(over_w))
    if over_w[most] > 0.0:
        name = headroom.topology.elements[most]
        return f"{name} is {lacking(float(over_w[most]))} over its limit now."
    short = headroom.negative()
    if short:
        element, case, missing_w = short[0]
        return (
            f"Nothing is overloaded, but redundancy is lost: {element} lacks "
            f"{lacking(missing_w)} after {case}."
        )
    hanging = spareless(headroom)
    if hanging:
        return f"Nothing is overloaded. {hanging}"
    return "Nothing is overloaded, and any further single loss is survivable."


def _about(element: str, hands: Hands) -> tuple[str, ...]:
    return (element, HALL) if element in hands.released else (element,)


def power_conditions(
    site: SiteModel,
    snapshot: Snapshot,
    losses: Losses,
    headroom: Headroom,
    hands: Hands,
    *,
    meter_w: FloatArray,
    caps_term_w: FloatArray,
    first_trip: str = "",
) -> list[Condition]:
    """Losses, lost redundancy, overload, caps that do not hold.

    Args:
        site: the site.
        snapshot: the present.
        losses: believed.
        headroom: of the plant as it is.
        hands: whose caps are moved; nothing is said of caps that are not.
        meter_w: float64[R], racks' metered power; NaN unmetered.
        caps_term_w: float64[R], most that their caps allow.
        first_trip: a sentence on the element that trips first, if one does.
    """
    out: list[Condition] = []
    for element in losses.lost:
        why = losses.because.get(element, "its signs stand")
        left = " ".join(said for said in (_left(headroom), first_trip) if said)
        text = f"{element} is lost: {why}. {left} Restore it."
        out.append(
            Condition("element_lost", element, Severity.CRITICAL, text, page=True, on_delay_s=0.0)
        )
    state = snapshot.good(site.element_state)
    for i in np.flatnonzero(state == UPS_ON_BATTERY):
        name = site.topology.elements[int(i)]
        text = f"{name} is on battery: its input has failed."
        out.append(Condition("on_battery", name, Severity.CRITICAL, text, page=True))
    for element, case, missing_w in headroom.negative():
        what = "its limit now" if case == "normal" else f"its limit after {case}"
        lacks = lacking(missing_w)
        rises = " Caps may not rise." if element in hands.moving else ""
        out.append(
            Condition(
                "redundancy_lost" if case != "normal" else "overload",
                element,
                Severity.CRITICAL,
                f"{element} lacks {lacks} to stay within {what}.{rises}",
                page=True,
                about=_about(element, hands),
                numbers={"missing_w": missing_w},
            )
        )
    measured = snapshot.good(site.element_meter)
    above_limit: list[tuple[str, float]] = []
    whole_w = site.topology.metered_limit_w
    for i in np.flatnonzero(measured > whole_w * 1.005):
        name, limit = site.topology.elements[int(i)], float(whole_w[i])
        over = float(measured[i]) - limit
        above_limit.append((name, over))
        text = f"{name} carries {lacking(over)} more than its limit of {kilowatts(limit)}."
        out.append(
            Condition(
                "overload",
                name,
                Severity.CRITICAL,
                text,
                page=True,
                about=_about(name, hands),
                numbers={"load_w": float(measured[i]), "limit_w": limit},
            )
        )
    out += released_conditions(hands, headroom, above_limit)
    has_nodes = np.bincount(site.node_rack, minlength=len(site.racks)) > 0
    with np.errstate(invalid="ignore"):
        above_caps = has_nodes & (meter_w > caps_term_w * 1.005 + 50.0)
    for i in np.flatnonzero(above_caps):
        rack = site.racks[int(i)]
        text = (
            f"{rack} draws {kilowatts(float(meter_w[i]))}, its caps allow "
            f"{kilowatts(float(caps_term_w[i]))}: a cap does not hold there."
        )
        out.append(
            Condition(
                "cap_not_holding",
                rack,
                Severity.WARNING,
                text,
                numbers={"meter_w": float(meter_w[i]), "caps_w": float(caps_term_w[i])},
            )
        )
    return out


def room_conditions(site: SiteModel, snapshot: Snapshot, was: Iterable[str]) -> list[Condition]:
    """`inlet_hot` per rack and `throttling` per node.

    Args:
        site: the site.
        snapshot: the present.
        was: keys of alarms now active; they clear at the clear limit, not at the set limit.
    """
    out: list[Condition] = []
    active, alerts = set(was), site.facility.alerts
    inlet_c = snapshot.good(site.rack_inlets)
    worst_c = np.fmax.reduce(inlet_c, axis=1, initial=-np.inf)
    warm = worst_c >= min(alerts.inlet_warning, alerts.inlet_clear)
    for r in np.flatnonzero(warm).tolist():
        rack, hottest = site.racks[r], float(worst_c[r])
        key = f"inlet_hot:{rack}"
        if above(hottest, key in active, alerts.inlet_warning, alerts.inlet_clear):
            text = f"{rack}: inlet air {hottest:.1f} °C, limit {alerts.inlet_warning:.1f} °C."
            numbers: Mapping[str, float | None] = {"inlet_c": hottest}
            out.append(Condition("inlet_hot", rack, Severity.WARNING, text, numbers=numbers))
    if site.gpu_state.size:
        state = snapshot.good(site.gpu_state)
        bits = np.where(np.isnan(state), 0.0, state).astype(np.int64)
        hot = ((bits & THERMAL_BITS) != 0).sum(axis=1)
        for i in np.flatnonzero(hot):
            node = site.nodes[int(i)]
            text = f"{node}: {int(hot[i])} GPUs slow down because they are hot."
            out.append(Condition("throttling", node, Severity.CRITICAL, text, page=True))
    return out


def write_conditions(acks: Iterable[Ack], foreign: Iterable[str]) -> list[Condition]:
    """`write_refused` from acks and `foreign_write` of caps."""
    out: list[Condition] = []
    for ack in acks:
        if ack.outcome is Outcome.REJECTED:
            text = f"{ack.command.point}: {ack.command.value:g} was refused: {ack.detail}."
            subject = ack.command.point.device
            out.append(Condition("write_refused", subject, Severity.WARNING, text, on_delay_s=0.0))
    for node in foreign:
        text = f"{node}: a cap that we did not set. It is left alone and may not rise."
        # Told at once: where protection takes it back, it does not stand for long.
        out.append(Condition("foreign_write", node, Severity.WARNING, text, on_delay_s=0.0))
    return out
