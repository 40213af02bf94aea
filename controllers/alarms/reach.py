"""What cannot be reached, told as few stories: the broker, a gateway, a rack's meters, a device."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from controllers.alarms.machine import BROKER
from controllers.base import Condition
from facility.commands import Severity
from facility.flaw_words import advice_for, words_for
from facility.points import Flaw, Grade, IntArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

#: Fewer silent devices than this behind the broker may well be silent for reasons of their own.
FEW: Final = 3


class _BySite:
    def __init__(self, site: SiteModel) -> None:
        self.site = site

    def __hash__(self) -> int:
        return id(self.site)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySite) and other.site is self.site


def _endpoint(site: SiteModel, device: str) -> str | None:
    """What is asked for a device: the broker, or `host:port`; None for what has no address."""
    if device in site.node_index:
        return BROKER
    config = site.facility.devices.get(device)
    if config is None:
        return None
    if config.address.startswith("mqtt:"):
        return BROKER
    _, found, rest = config.address.partition("://")
    return rest.partition("/")[0] if found else None


@lru_cache(maxsize=8)
def _endpoints(key: _BySite) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Device -> endpoint, and how many devices stand behind each."""
    of: dict[str, str] = {}
    count: dict[str, int] = {}
    for device, indexes in key.site.device_points.items():
        endpoint = _endpoint(key.site, device) if indexes.size else None
        if endpoint is not None:
            of[device] = endpoint
            count[endpoint] = count.get(endpoint, 0) + 1
    return of, count


@lru_cache(maxsize=8)
def _devices(key: _BySite) -> tuple[tuple[str, ...], IntArray]:
    """Devices that have points, and for each layout the number of its device; -1: no point."""
    names = [device for device, indexes in key.site.device_points.items() if indexes.size]
    number = {device: i for i, device in enumerate(names)}
    layouts = key.site.table.layouts
    of = [number[layout.device] if len(layout) else -1 for layout in layouts]
    return tuple(names), np.array(of, dtype=np.int64)


def _silent(site: SiteModel, snapshot: Snapshot) -> list[str]:
    """Devices of which every point is BAD."""
    names, of = _devices(_BySite(site))
    if not names:
        return []
    told = (snapshot.quality & 0b11) != int(Grade.BAD)
    # Layouts lie side by side, so that the first points of those that have any part them.
    spoke = np.logical_or.reduceat(told, site.table.starts[of >= 0])
    heard = np.bincount(of[of >= 0], spoke, len(names))
    return [names[int(i)] for i in np.flatnonzero(heard == 0.0)]


@lru_cache(maxsize=8)
def _metered(key: _BySite) -> Mapping[str, tuple[str, ...]]:
    """Rack -> the devices that meter its feeds."""
    found: dict[str, list[str]] = {}
    for (load, _), device in zip(key.site.topology.feeds, key.site.feed_device, strict=True):
        if device is not None and load in key.site.rack_index:
            found.setdefault(load, []).append(device)
    return {rack: tuple(devices) for rack, devices in found.items()}


def _hangs_on(site: SiteModel, device: str, endpoint: str | None) -> tuple[str, ...]:
    """What the life of a device depends on, and whose story it belongs to."""
    behind = () if endpoint is None else (endpoint,)
    config = site.facility.devices.get(device)
    if config is None:
        node = site.facility.nodes.get(device)
        return behind if node is None else (node.rack, *behind)
    about = config.measures
    load = about.rack or about.load
    out = [f"{load}/{about.feed}"] if load and about.feed else []
    out += [about.rack] if about.rack and about.feed else []
    out += [about.element] if about.element else []
    for loop in site.loops:
        if device in loop.cdus:
            out.append(loop.config.cdus[device])
    return (*out, *behind)


def device_conditions(
    site: SiteModel,
    snapshot: Snapshot,
    dead: Mapping[str, str],
    blind: Collection[str] = (),
) -> list[Condition]:
    """Everything of which nothing at all can be read.

    `broker_unreachable` stands for all agents; `endpoint_unreachable` says that every device
    behind one address is silent; `data_blind` that a rack has no meter left. The devices
    themselves are told too, and hang on those.

    Args:
        site: the site.
        snapshot: the present.
        dead: thing -> key of the loss that explains it; an endpoint whose devices are all
            explained that way is not at fault.
        blind: racks, feeds or elements whose meters are missing, besides.
    """
    silent = _silent(site, snapshot)
    if not silent and not blind:
        return []
    of, count = _endpoints(_BySite(site))
    behind: dict[str, list[str]] = {}
    for device in silent:
        if device in of:
            behind.setdefault(of[device], []).append(device)
    agents = [device for device in silent if device in site.node_index]
    gone = _broker_gone(site, len(agents), len(behind.get(BROKER, ())), count.get(BROKER, 0))
    out: list[Condition] = []
    if gone:
        out.append(_broker(site, len(agents), len(behind.get(BROKER, ())) - len(agents)))
    for device in silent:
        if device in site.node_index and gone:
            continue
        out.append(_device(site, snapshot, device, of.get(device)))
    for endpoint, devices in behind.items():
        if endpoint == BROKER or count[endpoint] < 2 or len(devices) < count[endpoint]:
            continue
        if not all(_explained(site, device, dead) for device in devices):
            text = (
                f"{endpoint}: none of the {len(devices)} devices behind it can be read. "
                "Check the gateway, its link and its supply."
            )
            out.append(Condition("endpoint_unreachable", endpoint, Severity.WARNING, text))
    return [*out, *_blind(site, set(silent), of, blind)]


def _explained(site: SiteModel, device: str, dead: Mapping[str, str]) -> bool:
    return device in dead or any(thing in dead for thing in _hangs_on(site, device, None))


def _broker_gone(site: SiteModel, agents: int, behind: int, devices: int) -> bool:
    """Whether so much is silent at once that the broker is the likelier story."""
    half_the_agents = agents > max(FEW, len(site.nodes) // 2)
    return half_the_agents or behind > max(FEW, devices // 2)


def _broker(site: SiteModel, agents: int, others: int) -> Condition:
    who = [f"{agents} of {len(site.nodes)} agents"] if agents else []
    who += [f"{others} sensors"] if others else []
    minutes = site.facility.agents.hold / 60.0
    text = f"The broker is unreachable: {' and '.join(who)} are silent. "
    if agents:
        text += f"The agents hold their caps for {minutes:.0f} min, then go to their fallback. "
    text += "Check the broker and its network."
    return Condition("broker_unreachable", BROKER, Severity.CRITICAL, text, page=True)


def _device(site: SiteModel, snapshot: Snapshot, device: str, endpoint: str | None) -> Condition:
    node = device in site.node_index
    flaws = snapshot.quality[site.device_points[device]] >> 2
    flaw = Flaw(int(np.bincount(flaws).argmax()))
    text = (
        f"{device}: the agent is silent; its caps are counted as they may be."
        if node
        else f"{device}: nothing can be read: {words_for(flaw)}. {advice_for(flaw)}."
    )
    kind = "agent_silent" if node else "device_unreachable"
    about = _hangs_on(site, device, endpoint)
    return Condition(kind, device, Severity.WARNING, text, about=about)


def _blind(
    site: SiteModel, silent: set[str], of: Mapping[str, str], blind: Collection[str]
) -> list[Condition]:
    """`data_blind`: of racks without any meter that answers, and of what else is missing."""
    meters = _metered(_BySite(site))
    racks = [rack for rack, devices in meters.items() if silent.issuperset(devices)]
    out: list[Condition] = []
    for name in dict.fromkeys((*blind, *racks)):
        devices = meters.get(name, ())
        text = f"{name}: meters are missing; it is counted at all that its caps allow."
        if devices:
            text += f" Check {' and '.join(devices)}."
        common = {of[device] for device in devices if device in of}
        # A rack is explained as soon as one of its feeds is dead, or its only gateway.
        feeds = [f"{name}/{feed}" for load, feed in site.topology.feeds if load == name]
        behind = tuple(common) if len(common) == 1 else ()
        out.append(
            Condition("data_blind", name, Severity.WARNING, text, about=(name, *feeds, *behind))
        )
    return out
