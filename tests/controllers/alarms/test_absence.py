"""Nodes that nobody means to lease are not missed; those that are, are told of once."""

from __future__ import annotations

import pytest

from facility.commands import Mode
from tests.controllers.rig import Hall

HOLDING = 2.0


def orphaned(mode: Mode) -> Hall:
    hall = Hall(modes={"hall": mode})
    for node in hall.site.nodes:
        hall.toy.changes[f"{node}:total:state"] = HOLDING
    return hall


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_a_new_site_in_observe_pages_nobody(mode: Mode) -> None:
    hall = orphaned(mode)
    hall.run(60)
    assert "control_lost:hall" not in hall.raised()


def test_nodes_that_stay_without_a_lease_are_missed() -> None:
    hall = orphaned(Mode.AUTO)
    hall.run(60)
    assert hall.raised()["control_lost:hall"].page


def test_the_first_seconds_of_a_start_page_nobody() -> None:
    hall = orphaned(Mode.AUTO)
    hall.run(8)
    for node in hall.site.nodes:
        del hall.toy.changes[f"{node}:total:state"]
    hall.run(60)
    assert "control_lost:hall" not in hall.raised()
