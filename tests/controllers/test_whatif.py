"""What would be left if something failed now."""

from __future__ import annotations

from controllers.whatif import what_if
from facility.commands import Decision
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall


def running() -> tuple[Hall, Decision]:
    h = Hall(Toy(site_of(small_hall()), cap_w=300.0))
    return h, h.run(20)


def test_nothing_failed_is_what_the_last_cycle_said() -> None:
    h, decision = running()
    answer = what_if(h.site, h.memory, h.inputs(), []).to_json()
    assert answer["binding"] == decision.facts["headroom"]["binding"]
    assert answer["ok"]


def test_a_failed_side_leaves_the_other_with_everything_and_no_spare() -> None:
    h, _ = running()
    answer = what_if(h.site, h.memory, h.inputs(), ["row-b"]).to_json()
    rows = {e["element"]: e for e in answer["elements"]}
    assert rows["row-b"]["worst_w"] is None
    before = what_if(h.site, h.memory, h.inputs(), []).to_json()
    was = {e["element"]: e for e in before["elements"]}
    assert rows["row-a"]["normal_w"] == was["row-a"]["worst_w"]
    assert {r["rack"]: r["down_in"] for r in answer["racks"]}["r01"][-1] == "loss of row-a"
