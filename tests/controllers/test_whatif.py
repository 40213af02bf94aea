"""What would be left if something failed now."""

from __future__ import annotations

import pytest

from controllers.whatif import at_most, what_if
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


def test_caps_at_their_maximum_show_what_a_release_may_take() -> None:
    h, decision = running()
    now = at_most(h.site, h.memory, h.inputs(), ())
    assert now.to_json() == what_if(h.site, h.memory, h.inputs(), []).to_json()
    most = at_most(h.site, h.memory, h.inputs(), h.site.nodes)
    power = h.site.facility.power
    factor = (1.0 + power.board_accuracy) / power.psu_efficiency
    caps = decision.facts["allocation"]["nodes"]
    rise_w = sum(8 * factor * (700.0 - caps[f"r01-n{i}"]["cap_w"]) for i in (1, 2))
    assert most.load_w[0] - now.load_w[0] == pytest.approx(rise_w, rel=0.02)
    assert {name for name, *_ in most.negative()} >= {"row-a", "row-b"}
    one = at_most(h.site, h.memory, h.inputs(), {h.site.nodes[0]})
    assert one.load_w[1] == now.load_w[1]
