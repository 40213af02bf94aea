"""The numbers of a cycle that are worth a line in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def trend_numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one cycle worth a line in time; one that is not known is left out.

    Names: `hall.power_w`, `hall.tokens_per_joule`, `twin.tokens_per_joule`, `headroom_w`, and per
    loop `<loop>.supply_c`, `<loop>.setpoint_c`.
    """
    efficiency = facts.get("efficiency") or {}
    found: dict[str, Any] = {}
    for who in ("hall", "twin"):
        part = efficiency.get(who) or {}
        found[f"{who}.power_w"] = part.get("power_w")
        found[f"{who}.tokens_per_joule"] = part.get("tokens_per_joule")
    binding = (facts.get("headroom") or {}).get("binding") or {}
    found["headroom_w"] = binding.get("headroom_w")
    for name, loop in (facts.get("cooling") or {}).items():
        if isinstance(loop, Mapping):
            found[f"{name}.supply_c"] = loop.get("supply_c")
            found[f"{name}.setpoint_c"] = loop.get("setpoint")
    return {name: float(v) for name, v in found.items() if isinstance(v, (int, float))}
