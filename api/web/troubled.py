"""Devices that give nothing, are slow or doubtful: which, since when and why. No HTML here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from api.hall import DeviceStatus

#: Rows of the table; whoever needs all asks the API.
SHOWN: Final = 12
#: Doubts of one device that its row names.
DOUBTS: Final = 2


def troubled(devices: Sequence[DeviceStatus]) -> dict[str, Any]:
    """Rows of the devices that need a look, those without any value first, and how many more.

    Nodes come last: many are silent at once when their broker is, and that is an alarm of its own.
    """
    found = [d for d in devices if d.state in ("bad", "slow") or d.detail or d.doubts]
    found.sort(key=lambda d: (d.profile == "node/agent", d.state != "bad"))
    return {"rows": [_row(d) for d in found[:SHOWN]], "more": max(len(found) - SHOWN, 0)}


def _row(device: DeviceStatus) -> dict[str, Any]:
    more = len(device.doubts) - DOUBTS
    doubts = [*device.doubts[:DOUBTS], *([f"and {more} more"] if more > 0 else [])]
    state = {"bad": "no values", "slow": "slow"}.get(device.state, "doubtful")
    return {
        "device": device.id,
        "profile": device.profile,
        "endpoint": device.endpoint,
        "state": state,
        "last_ms": device.last_good_ms if device.state == "bad" else None,
        "never": device.state == "bad" and device.last_good_ms is None,
        "why": "; ".join([*([device.detail] if device.detail else []), *doubts]),
    }
