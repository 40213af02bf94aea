"""A cap that rises by itself is taken back; what its rack draws meanwhile moves no other cap."""

from __future__ import annotations

import numpy as np

from tests.controllers.rig import Hall

RACK = "r01"
SETTLED_S = 40


def settled() -> Hall:
    hall = Hall()
    hall.run(SETTLED_S)
    return hall


def lowered(hall: Hall, since: int) -> set[str]:
    return {
        c.point.device
        for d in hall.decisions[since:]
        for c in d.commands
        if not c.raises and c.point.kind == "power_cap"
    }


def surge(hall: Hall, watts: float) -> None:
    hall.toy.changes |= {
        f"{name}:total:active_power": watts
        for name, device in hall.site.facility.devices.items()
        if device.measures.rack == RACK
    }


def test_a_reverted_cap_sent_everybody_to_the_floors() -> None:
    hall = settled()
    since = len(hall.decisions)
    hall.toy.caps["r01-n1"] = 700.0
    surge(hall, 0.6 * float(hall.memory.loads.held_w[0]))
    hall.step()
    assert lowered(hall, since) == {"r01-n1"}


def test_a_surge_that_no_cap_explains_counts_once_every_node_has_been_heard() -> None:
    hall = settled()
    since = len(hall.decisions)
    surge(hall, float(np.max(hall.site.topology.nameplate_w)))
    hall.run(4)
    assert lowered(hall, since) > {"r01-n1"}


def test_a_cap_that_rises_again_and_again_is_no_excuse() -> None:
    hall = settled()
    for _ in range(3):
        hall.toy.caps["r01-n1"] = 700.0
        hall.run(8)
    risen_s = float(hall.memory.caps.risen_s[0])
    assert hall.toy.now_s - risen_s > 16.0


def test_headroom_counts_what_a_surge_draws() -> None:
    hall = settled()
    hall.toy.caps["r01-n1"] = 700.0
    told = hall.step().facts["headroom"]
    row = next(rack for rack in told["racks"] if rack["rack"] == RACK)
    assert row["load_w"] > 1.05 * float(np.median([r["load_w"] for r in told["racks"]]))
