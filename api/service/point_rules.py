"""What the store is told about points: from profiles how counters count, from the file the rest."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from drivers.catalog import profiles
from drivers.profile.counting import Counting, counting
from facility.config import DeviceConfig, Facility, Keep, Node, PointClass
from facility.points import PointId
from facility.store.rollups import CounterRule, PointRules, RetentionDays, SiteDays, default_rule
from facility.topology.ratings import limit_of

#: What is rated may carry more for a while, and meters and ratings are not exact.
MARGIN: Final = 1.5
_DAY_S: Final = 86_400.0
_CLASS_OF_PROFILE: Final[dict[str, PointClass]] = {
    "pdu": "power",
    "ups": "power",
    "ats": "power",
    "meter": "power",
    "shelf": "power",
    "cooling": "cooling",
    "cdu": "cooling",
    "sensor": "environment",
    "engine": "gpu",
    "gpu": "gpu",
}


def rules_of(facility: Facility) -> PointRules:
    """The rules of a hall's points; of points that left the file the plainest ones."""

    @cache
    def fastest_wh_per_s(device: str) -> float | None:
        watts = _rated_w(facility, device)
        return None if watts is None or not math.isfinite(watts) else MARGIN * watts / 3600.0

    @cache
    def counter(point: PointId) -> CounterRule:
        plain = default_rule(point.kind)
        known = _counting(facility, point)
        fastest = fastest_wh_per_s(point.device) if point.kind == "energy" else None
        return CounterRule(
            fastest if fastest is not None else plain.fastest_per_s,
            known.resolution if known is not None else _coarsest(point.kind),
            known.wraps_at if known is not None else None,
        )

    @cache
    def keep_of(device: str) -> RetentionDays:
        keep = facility.store.retention.get(class_of(facility, device), Keep())
        raw_s = facility.store.keep_raw if keep.raw is None else keep.raw
        rollups_s = facility.store.keep_rollups if keep.rollups is None else keep.rollups
        return RetentionDays(raw_s / _DAY_S, rollups_s / _DAY_S, rollups_s / _DAY_S)

    return PointRules(
        site=SiteDays(facility.site.timezone),
        counter=counter,
        keep=lambda point: keep_of(point.device),
    )


def class_of(facility: Facility, device: str) -> PointClass:
    """What a device's points are for, as `store.retention` names it."""
    if device in facility.nodes:
        return "gpu"
    entry = facility.devices.get(device)
    if entry is None:
        return "other"
    return _CLASS_OF_PROFILE.get(entry.profile.partition("/")[0], "other")


def _coarsest(kind: str) -> float:
    """The step of a counter that no profile tells of: 1 kWh, or one token."""
    return 1000.0 if kind == "energy" else 1.0


def _counting(facility: Facility, point: PointId) -> Counting | None:
    entry = facility.devices.get(point.device)
    profile = profiles().get(entry.profile) if entry is not None else None
    return None if profile is None else counting(profile, point.part, point.kind)


def _rated_w(facility: Facility, device: str) -> float | None:
    """The most that a device's meters should see, W; None where nothing is stated."""
    node = facility.nodes.get(device)
    if node is not None:
        return _node_w(node)
    entry = facility.devices.get(device)
    return None if entry is None else _measured_w(facility, entry)


def _node_w(node: Node) -> float:
    return node.gpus * node.max_cap + node.overhead


def _measured_w(facility: Facility, entry: DeviceConfig) -> float | None:
    power, what = facility.power, entry.measures
    if what.element is not None and what.element in power.elements:
        limit = limit_of(power.elements[what.element])
        return limit.rating_w / limit.share
    if what.rack is not None and what.rack in power.racks:
        return power.racks[what.rack].rating
    if what.load is not None and what.load in power.loads:
        return power.loads[what.load].rating
    if what.node is not None and what.node in facility.nodes:
        return _node_w(facility.nodes[what.node])
    return None
