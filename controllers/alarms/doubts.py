"""Readings that contradict physics: what the drivers marked, told per device."""

from __future__ import annotations

from typing import Final

import numpy as np

from controllers.base import Condition
from facility.commands import Severity
from facility.points import Flaw, Grade, quality
from facility.site import SiteModel
from facility.snapshot import Snapshot

INCONSISTENT: Final = quality(Grade.SUSPECT, Flaw.INCONSISTENT)
FROZEN: Final = quality(Grade.SUSPECT, Flaw.FROZEN)
#: Readings that a text names.
NAMED: Final = 3


def doubt_conditions(site: SiteModel, snapshot: Snapshot) -> list[Condition]:
    """`readings_doubtful` of every device of which some reading contradicts physics.

    The drivers have looked several times before they mark one, so there is no delay here.
    """
    packed = snapshot.quality
    marked = np.flatnonzero((packed == INCONSISTENT) | (packed == FROZEN))
    if not marked.size:
        return []
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
