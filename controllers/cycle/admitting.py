"""What a wish of a person would get: a cycle tried without consequences."""

from __future__ import annotations

from dataclasses import replace

from controllers.cycle.decide import decide
from controllers.cycle.overrides import Admission, within_board
from controllers.cycle.state import CycleInput, Memory
from facility.commands import Override
from facility.site import SiteModel


def admit(site: SiteModel, memory: Memory, inputs: CycleInput, override: Override) -> Admission:
    """What an override would get if it were taken in this cycle; changes nothing."""
    leases = tuple(o for o in inputs.overrides if o.point != override.point)
    trial = replace(override, since_ms=inputs.now_ms, until_ms=inputs.now_ms + 1)
    after, _, _ = decide(site, memory, replace(inputs, overrides=(*leases, trial)))
    node = site.cap_index.get(override.point)
    if node is not None:
        why = after.facts["overrides_refused"].get(override.id)
        if why is not None:
            return Admission(None, str(why))
        granted = within_board(site, site.nodes[node], override.value)
        bounded = "" if granted == override.value else "the board's range"
        return Admission(granted, bounded)
    loop = site.setpoint_loop.get(override.point)
    if loop is None:
        return Admission(None, f"{override.point} is not a point that may be overridden")
    facts = after.facts["cooling"][site.loops[loop].name]
    low, high = float(facts["L"]), facts["U"]
    if override.value < low:
        return Admission(low, f"L: {facts['low_because']}")
    if high is None or override.value > high:
        ceiling = low if high is None else max(float(high), low)
        return Admission(ceiling, f"U: {facts['high_because']}")
    return Admission(override.value, "")
