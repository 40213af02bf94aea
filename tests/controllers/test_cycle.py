"""One hall through whole cycles: what moves, what must not, and what people are told."""

from __future__ import annotations

import json

import numpy as np
import pytest

from controllers.cycle import decide
from controllers.cycle.state import Memory
from facility.commands import Mode, Override
from facility.exact import decode, digest, dumps
from facility.lazily import plain
from facility.points import PointId
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall


def hall(**plant: object) -> Hall:
    return Hall(Toy(site_of(small_hall()), **plant))  # type: ignore[arg-type]


def caps(h: Hall) -> list[float]:
    return [h.toy.caps[n] for n in h.site.nodes]


def cap_point(node: str) -> PointId:
    return PointId(node, "total", "power_cap")


def lease(h: Hall, node: str, value: float, seconds: float = 600.0) -> Override:
    return Override(
        "o1",
        cap_point(node),
        value,
        "kim",
        "test",
        h.toy.now_ms - 1000,
        h.toy.now_ms + round(seconds * 1000),
    )


def test_caps_rise_to_the_plan_and_then_nothing_moves_any_more() -> None:
    h = hall(cap_w=300.0)
    h.run(30)
    assert min(caps(h)) > 480.0
    before = len(h.commands())
    decision = h.run(60)
    assert len(h.commands()) == before
    assert decision.facts["allocation"]["used"] == "plan"
    assert decision.facts["headroom"]["ok"]


def test_noisy_meters_do_not_make_caps_dither() -> None:
    h = hall(cap_w=300.0)
    rng = np.random.default_rng(5)
    h.run(20)
    before = len(h.commands())

    def noise(_: object) -> None:
        h.toy.share = 0.9 + 0.02 * float(rng.standard_normal())

    h.run(120, each=noise)
    assert len(h.commands()) - before <= len(h.site.nodes)


def test_unknown_caps_count_as_the_boards_maximum_and_are_lowered_first() -> None:
    h = hall(cap_w=700.0)
    h.solving = False
    first = h.step()
    assert first.facts["allocation"]["used"] == "water_fill"
    assert [c.raises for c in first.commands if c.point.kind == "power_cap"] == [False] * 4
    h.run(10)
    assert h.decisions[-1].facts["headroom"]["ok"]


def test_lowerings_are_confirmed_before_anything_rises() -> None:
    h = hall(cap_w=300.0)
    h.toy.caps["r01-n1"] = 700.0
    h.toy.caps["r01-n2"] = 700.0
    h.run(4)
    lowered = next(d.cycle for d in h.decisions if any(not c.raises for c in d.commands))
    raised = [
        d.cycle
        for d in h.decisions
        if any(c.raises and c.point.kind == "power_cap" for c in d.commands)
    ]
    assert all(r > lowered for r in raised)


def test_raises_stay_under_the_sites_ramp() -> None:
    h = Hall(Toy(site_of(small_hall(**{"2 MW/min": "60 kW/min"})), cap_w=300.0))
    h.run(20)
    per_cycle = []
    held = dict.fromkeys(h.site.nodes, 300.0)
    for d in h.decisions:
        step = 0.0
        for c in d.commands:
            if c.point.kind == "power_cap":
                # At the wall: eight boards, their accuracy, their supplies.
                step += 8 * 1.05 / 0.96 * (c.value - held[c.point.device])
                held[c.point.device] = c.value
        per_cycle.append(step)
    assert min(caps(h)) > 480.0
    assert max(per_cycle) <= 5.0 * 1000.0
    assert sum(per_cycle[:6]) <= 6 * 1000.0


def test_no_minute_sees_more_than_the_sites_ramp_even_after_a_pause() -> None:
    h = Hall(Toy(site_of(small_hall(**{"2 MW/min": "8 kW/min"})), cap_w=250.0))
    h.solving = False
    h.run(20)
    h.solving = True
    rises = []
    held = dict.fromkeys(h.site.nodes, 250.0)
    for _ in range(80):
        commands = h.step().commands
        moved = [c for c in commands if c.point.kind == "power_cap"]
        rises.append(sum(8 * 1.05 / 0.96 * (c.value - held[c.point.device]) for c in moved))
        held |= {c.point.device: c.value for c in moved}
    assert sum(rises) > 6000.0
    assert max(sum(rises[i : i + 60]) for i in range(21)) <= 8000.0


@pytest.mark.parametrize(("epoch", "journal"), [(None, True), (1, False)])
def test_without_lease_or_journal_nothing_rises(epoch: int | None, journal: bool) -> None:
    h = hall(cap_w=300.0)
    h.run(1)
    h.memory = Memory(**{**vars(h.memory), "epoch": 1})
    h.epoch, h.journal_ok = epoch, journal
    h.run(20)
    assert max(caps(h)) == 300.0
    for node in h.site.nodes:
        h.toy.caps[node] = 690.0
    h.run(10)
    assert max(caps(h)) < 690.0


def test_observe_shows_every_write_and_sends_none() -> None:
    h = hall(cap_w=700.0)
    h.modes = {"hall": Mode.OBSERVE}
    decision = h.run(5)
    assert h.commands() == []
    assert len(decision.withheld) >= 4
    assert "observe" in decision.withheld[0][2]
    text = decision.facts["next"]["text"]
    assert text.startswith("Would lower the GPU caps of 4 nodes in r01-r02 to "), text
    assert "Withheld: " in text


def test_off_in_one_rack_leaves_that_rack_alone_and_counts_it() -> None:
    h = hall(cap_w=300.0)
    h.modes = {"hall": Mode.AUTO, "rack:r01": Mode.OFF}
    h.run(20)
    assert caps(h)[:2] == [300.0, 300.0]
    assert min(caps(h)[2:]) > 480.0


def test_an_override_that_fits_is_held_and_ends() -> None:
    h = hall(cap_w=300.0)
    h.run(10)
    h.overrides = (lease(h, "r01-n1", 320.0, 20.0),)
    h.run(10)
    assert h.toy.caps["r01-n1"] == 320.0
    setpoint = next(s for s in h.decisions[-1].setpoints if s.point == cap_point("r01-n1"))
    assert setpoint.value == 320.0
    h.run(40)
    assert h.toy.caps["r01-n1"] > 480.0
    assert "override_expired:o1" in h.raised()


def test_an_override_that_does_not_fit_is_refused_and_names_what_binds() -> None:
    h = Hall(Toy(site_of(small_hall(ROW="16 kW")), cap_w=250.0))
    h.run(5)
    h.overrides = (lease(h, "r01-n1", 700.0),)
    decision = h.run(5)
    assert "row-" in decision.facts["overrides_refused"]["o1"]
    assert decision.facts["headroom"]["ok"]


def test_floors_that_do_not_fit_are_said_with_the_missing_kilowatts() -> None:
    h = Hall(Toy(site_of(small_hall(ROW="9 kW")), cap_w=250.0))
    h.run(6)
    alarm = h.raised()["allocation_infeasible:hall"]
    assert "kW" in alarm.text


def test_an_overload_now_takes_caps_below_their_floors_but_lost_redundancy_does_not() -> None:
    # At the floors (250 W) the rows carry 7.2 kW each, at the boards' minimum (200 W) 6.3 kW.
    now = Hall(Toy(site_of(small_hall(ROW="7 kW")), cap_w=250.0))
    now.run(20)
    assert all(200.0 <= cap < 250.0 for cap in caps(now))
    after_a_loss = Hall(Toy(site_of(small_hall(ROW="9 kW")), cap_w=250.0))
    after_a_loss.run(20)
    assert set(caps(after_a_loss)) == {250.0}


def test_the_loss_of_a_feed_is_believed_and_moves_nothing() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    before = len(h.commands())
    h.toy.dead_feeds.add("b")
    decision = h.run(30)
    assert decision.facts["losses"]["lost"]
    assert len(h.commands()) == before
    raised = h.raised()
    assert any(key.startswith("element_lost:") for key in raised)
    pages = [e for e in h.events if e.page]
    assert len(pages) == 1, [e.key for e in pages]
    h.toy.dead_feeds.clear()
    decision = h.run(40)
    assert decision.facts["losses"]["lost"] == []
    assert not h.memory.alarms.active
    assert len(h.commands()) == before


def test_a_rack_without_nodes_does_not_shed_caps_when_a_lost_feed_takes_its_meter() -> None:
    rack = "    r03: {feeds: {a: row-a, b: row-b}, rating: 9 kW}\n"
    text = small_hall().replace("  loads:\n", rack + "  loads:\n", 1)
    h = Hall(Toy(site_of(text.replace("pdu-r[01-02]-[a,b]", "pdu-r[01-03]-[a,b]")), cap_w=300.0))
    a, b = (f"pdu-r03-{side}:total:active_power" for side in "ab")
    h.toy.changes |= {a: 1000.0, b: 1000.0}
    h.run(60)
    held, before = caps(h), len(h.commands())
    assert min(held) > 400.0
    h.toy.dead_feeds.add("b")
    h.toy.broken |= {"pdu-r01-b", "pdu-r02-b", "pdu-r03-b"}
    h.toy.changes |= {a: 2000.0}
    decision = h.run(400)
    assert decision.facts["losses"]["lost"]
    assert len(h.commands()) == before
    assert caps(h) == held


def test_after_a_loss_the_limits_of_what_is_left_are_hard_at_once() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    h.toy.dead_feeds.add("b")
    h.run(5)
    for node in h.site.nodes:
        h.toy.caps[node] = 690.0
    h.run(6)
    assert h.decisions[-1].facts["allocation"]["used"] in ("hold", "water_fill")
    assert max(caps(h)) < 600.0


def test_restoring_redundancy_is_a_separate_action_after_the_sites_time() -> None:
    h = Hall(Toy(site_of(small_hall(RESECURE="60 s")), cap_w=300.0))
    h.run(20)
    h.toy.dead_feeds.add("b")
    decision = h.run(30)
    assert "hold" in decision.facts["next"]["text"]
    before = len(h.commands())
    h.run(20)
    assert len(h.commands()) == before


def test_one_sign_is_no_loss_and_stops_raises() -> None:
    h = hall(cap_w=300.0)
    h.run(3)
    h.solving = False
    h.toy.broken.add("ups-b1")
    h.run(5)
    assert h.decisions[-1].facts["losses"]["lost"] == []


def test_a_silent_broker_moves_no_cap_and_pages_once() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    before, held = len(h.commands()), caps(h)
    h.toy.broken.update(h.site.nodes)
    h.run(90)
    assert len(h.commands()) == before
    assert caps(h) == held
    pages = [e.key for e in h.events if e.page]
    assert pages == ["broker_unreachable:broker"]


def test_lost_meters_of_a_rack_are_never_zero_watts() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    good = h.decisions[-1].facts["headroom"]["racks"][0]["load_w"]
    h.toy.broken.update({"pdu-r01-a", "pdu-r01-b"})
    decision = h.run(10)
    assert decision.facts["headroom"]["racks"][0]["load_w"] >= 0.9 * good


def test_a_cap_that_somebody_else_set_is_shown_and_not_fought() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    before = len(h.commands())
    h.toy.caps["r01-n1"] = 333.0
    h.run(30)
    assert h.toy.caps["r01-n1"] == 333.0
    assert len([c for c in h.commands()[before:] if "r01-n1" in c]) == 0
    assert "foreign_write:r01-n1" in h.raised()


def test_a_refused_write_is_told() -> None:
    h = hall(cap_w=300.0)
    h.toy.refuse.add("r01-n1")
    h.run(8)
    assert "write_refused:r01-n1" in h.raised()


def test_a_confirmed_leak_takes_the_racks_caps_to_their_floor_within_two_cycles() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    h.toy.changes["air-r01:leak:leak"] = 1.0
    h.toy.changes["wet-r01:leak:leak"] = 1.0
    h.run(2)
    assert caps(h)[:2] == [250.0, 250.0]
    assert min(caps(h)[2:]) > 480.0
    assert h.raised()["leak:r01"].page


def leaked() -> Hall:
    h = hall(cap_w=300.0)
    h.run(20)
    for value in (1.0, 0.0):
        h.toy.changes["air-r01:leak:leak"] = value
        h.toy.changes["wet-r01:leak:leak"] = value
        h.run(30)
    return h


def test_a_leak_that_dried_let_caps_rise_within_seconds() -> None:
    h = leaked()
    h.run(500)
    assert caps(h)[:2] == [250.0, 250.0]
    assert "leak:r01" in h.memory.alarms.active
    h.run(120)
    assert min(caps(h)[:2]) > 300.0
    assert "leak:r01" not in h.memory.alarms.active


def test_setting_the_rack_to_auto_again_ends_the_wait_after_a_leak() -> None:
    h = leaked()
    h.modes = {"hall": Mode.AUTO, "rack:r01": Mode.OBSERVE}
    h.run(5)
    assert caps(h)[:2] == [250.0, 250.0]
    h.modes = {"hall": Mode.AUTO}
    h.run(60)
    assert min(caps(h)[:2]) > 300.0


def test_a_lost_flow_takes_caps_to_their_minimum_in_two_reads() -> None:
    h = hall(cap_w=300.0)
    h.run(20)
    h.toy.flow_share = 0.02
    h.run(2)
    assert caps(h) == [200.0] * 4


def test_cooling_lowers_a_cap_that_the_chips_cannot_bear() -> None:
    h = hall(cap_w=300.0, margin_at_30_w0=28.0)
    decision = h.run(30)
    limit = decision.facts["allocation"]["nodes"]["r01-n1"]
    assert limit["cap_w"] < 520.0


def test_deciding_twice_gives_equal_results() -> None:
    h = hall(cap_w=300.0)
    for _ in range(12):
        h.step()
    inputs = h.inputs()
    one, after_one, _ = decide(h.site, h.memory, inputs)
    two, after_two, _ = decide(h.site, h.memory, inputs)
    assert digest(one) == digest(two)
    assert digest(after_one) == digest(after_two)


def test_memory_survives_a_checkpoint_to_the_last_bit() -> None:
    h = hall(cap_w=300.0)
    h.run(15)
    back = decode(Memory, json.loads(dumps(h.memory)))
    assert digest(back) == digest(h.memory)
    inputs = h.inputs()
    assert digest(decide(h.site, back, inputs)[0]) == digest(decide(h.site, h.memory, inputs)[0])


def test_facts_are_plain_json_without_nan() -> None:
    h = hall(cap_w=300.0)
    facts = h.run(8).facts
    text = json.dumps(plain(facts), allow_nan=False)
    assert set(json.loads(text)) >= {
        "headroom",
        "sentence",
        "trust",
        "allocation",
        "cooling",
        "efficiency",
        "modes",
        "next",
        "last",
    }
    assert facts["efficiency"]["hall"]["tokens_per_joule"] > 0.0
