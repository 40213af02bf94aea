"""Readings that contradict physics or come from elsewhere: what the drivers marked, by device."""

from __future__ import annotations

from typing import Final

import numpy as np

from controllers.base import Condition
from facility.commands import Severity
from facility.points import ByteArray, Flaw, Grade, quality
from facility.site import SiteModel
from facility.snapshot import Snapshot

INCONSISTENT: Final = quality(Grade.SUSPECT, Flaw.INCONSISTENT)
FROZEN: Final = quality(Grade.SUSPECT, Flaw.FROZEN)
SUBSTITUTED: Final = quality(Grade.SUSPECT, Flaw.SUBSTITUTED)
#: Readings that a text names.
NAMED: Final = 3


def doubt_conditions(site: SiteModel, snapshot: Snapshot) -> list[Condition]:
    """`readings_doubtful` of every device of which some reading cannot be what it says.

    The drivers have looked several times before they mark one that contradicts physics, so there
    is no delay here. That another device or source speaks they mark at once.
    """
    packed = snapshot.quality
    return [*_impossible(site, packed), *_of_others(site, packed)]


def _of_others(site: SiteModel, packed: ByteArray) -> list[Condition]:
    found: dict[str, int] = {}
    for i in np.flatnonzero(packed == SUBSTITUTED).tolist():
        device = site.table.specs[i].id.device
        found[device] = found.get(device, 0) + 1
    out: list[Condition] = []
    for device, count in found.items():
        text = (
            f"{device}: {count} readings come from another device or source than the file means. "
            "They are not trusted. Its health says what it is; check its profile and its address."
        )
        out.append(Condition("readings_doubtful", device, Severity.WARNING, text))
    return out


def _impossible(site: SiteModel, packed: ByteArray) -> list[Condition]:
    marked = np.flatnonzero((packed == INCONSISTENT) | (packed == FROZEN))
    found: dict[str, list[str]] = {}
    still: dict[str, bool] = {}
    for i in marked.tolist():
        point = site.table.specs[i].id
        found.setdefault(point.device, []).append(f"{point.part} {point.kind.replace('_', ' ')}")
        still[point.device] = still.get(point.device, True) and int(packed[i]) == FROZEN
    out: list[Condition] = []
    for device, names in found.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        does = (
            "stand still while their neighbours move" if still[device] else "contradict each other"
        )
        text = (
            f"{device}: readings {does}: {', '.join(names[:NAMED])}{more}. They count as missing. "
            "Its health tells the numbers; check its profile, wiring and sensors."
        )
        out.append(Condition("readings_doubtful", device, Severity.WARNING, text, on_delay_s=0.0))
    return out
