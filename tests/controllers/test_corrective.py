"""Corrective mode: what it allows, what it needs to be proved, and that it ends in one cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from controllers.allocation import Problem
from controllers.allocation.rows import Rows
from controllers.headroom import study_shares
from facility.drills import PROVES_MS, Shedding
from facility.loading import load_text
from facility.topology import Shares
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall

CURVE = "overload: [[110 %, 600 s], [125 %, 60 s], [150 %, 10 s]]"


def corrective_hall() -> str:
    text = small_hall().replace("  resecure: ", "  mode: corrective\n  resecure: ")
    for side in ("a", "b"):
        start = text.index(f"row-{side}: {{")
        end = text.index("\n", start)
        row = f"row-{side}: {{kind: busway, {CURVE}, fed_by: [ups-{side}1], rating: 17 kW}}"
        text = text[:start] + row + text[end:]
    return text


def at_work(proof: bool = True, shed_s: float = 5.0, seconds: int = 60) -> Hall:
    h = Hall(Toy(site_of(corrective_hall()), cap_w=300.0))
    if proof:
        h.shedding = Shedding(shed_s, h.toy.now_ms - 1000, 1)
    h.run(seconds)
    return h


def caps(h: Hall) -> list[float]:
    return [h.toy.caps[node] for node in h.site.nodes]


def told(h: Hall) -> dict[str, object]:
    return dict(h.decisions[-1].facts["corrective"])


def test_without_a_drill_the_limits_are_the_preventive_ones() -> None:
    h = at_work(proof=False)
    assert told(h)["engaged"] is False
    assert told(h)["missing"] == ["no drill has proved how fast load comes off"]
    preventive = Hall(
        Toy(site_of(corrective_hall().replace("mode: corrective", "mode: preventive")), cap_w=300.0)
    )
    preventive.run(60)
    assert caps(h) == caps(preventive)
    assert dict(preventive.decisions[-1].facts["corrective"])["mode"] == "preventive"


def test_with_its_proofs_it_lets_caps_rise_above_the_preventive_ones() -> None:
    less, more = at_work(proof=False), at_work()
    assert told(more)["engaged"] is True
    assert told(more)["lease_s"] == 1.5
    assert min(caps(more)) > max(caps(less)) + 20.0
    assert more.decisions[-1].facts["headroom"]["ok"]
    assert more.decisions[-1].facts["allocation"]["used"] == "plan"


def test_people_are_told_when_a_site_does_without_it_for_long() -> None:
    h = at_work(proof=False)
    assert "no drill" in h.raised()["corrective_off:hall"].text
    assert "corrective_off:hall" not in at_work().raised()


def test_it_waits_until_its_proofs_have_stood() -> None:
    h = at_work(seconds=15)
    assert told(h)["engaged"] is False
    assert "must stand for 20 s" in str(told(h)["missing"])


def test_a_slower_shed_allows_less() -> None:
    fast, slow = at_work(), at_work(shed_s=30.0)
    assert max(caps(slow)) < min(caps(fast))


def test_a_site_may_reckon_with_a_slower_shed_than_was_measured_for_longer_leases() -> None:
    h = Hall(
        Toy(
            site_of(corrective_hall().replace("  resecure", "  shed: 30 s\n  resecure")),
            cap_w=300.0,
        )
    )
    h.shedding = Shedding(5.0, h.toy.now_ms - 1000, 1)
    h.run(60)
    assert told(h)["shed_s"] == 30.0
    assert told(h)["lease_s"] == 14.0
    assert caps(h) == caps(at_work(shed_s=30.0))


MISSING: list[tuple[Callable[[Hall], object], str]] = [
    (lambda h: setattr(h, "shedding", None), "no drill"),
    (lambda h: setattr(h, "shedding", Shedding(5.0, h.toy.now_ms - PROVES_MS, 1)), "30 days"),
    (lambda h: h.toy.broken.add("r01-n1"), "r01-n1 are degraded"),
    (lambda h: h.toy.changes.update({"r01-n1:total:state": 2.0}), "r01-n1 are degraded"),
    (lambda h: h.toy.changes.update({"ups-a1:total:state": 5.0}), "ups-a1 on battery"),
    (lambda h: h.toy.changes.update({"ups-a1:total:state": None}), "does not say"),
    (lambda h: setattr(h, "epoch", None), "cannot all be lowered"),
    (lambda h: h.toy.dead_feeds.add("b"), "may be lost"),
    (lambda h: h.toy.changes.update({"ups-a1:total:active_power": 31e3}), "over the limit"),
]


@pytest.mark.parametrize(("spoil", "words"), MISSING)
def test_it_ends_in_the_cycle_in_which_a_proof_is_missing(
    spoil: Callable[[Hall], object], words: str
) -> None:
    h = at_work()
    before = caps(h)
    spoil(h)
    h.step()
    assert told(h)["engaged"] is False
    assert words in str(told(h)["missing"])
    for _ in range(8):
        h.step()
    assert max(h.toy.caps[n] for n in h.site.nodes if n != "r01-n1") < min(before)


def test_it_is_off_while_a_clock_has_run_by_more_than_a_tenth() -> None:
    h = at_work()
    h.obey = False
    h.toy.dead_feeds.add("b")
    h.run(10)
    h.obey = True
    h.toy.dead_feeds.clear()
    h.run(60)
    clock = max(h.memory.trips.used)
    assert clock > 0.1
    assert told(h)["engaged"] is False
    assert "trip clock" in str(told(h)["missing"])


def test_the_loss_of_a_feed_sheds_at_once_to_what_is_allowed_for_hours() -> None:
    h = at_work()
    h.toy.dead_feeds.add("b")
    decision = h.step()
    lowered = [c for c in decision.commands if c.point.kind == "power_cap"]
    assert len(lowered) == len(h.site.nodes)
    assert not any(c.raises for c in lowered)
    h.run(3)
    assert h.toy.rack_w("r01") + h.toy.rack_w("r02") <= min(
        h.site.topology.limit_w[h.site.topology.element_index[e]] for e in ("row-a", "ups-a1")
    )


def test_an_element_whose_overload_no_shedding_can_end_keeps_its_limit() -> None:
    text = corrective_hall().replace(
        "rating: 14 kW, overhead: 500 W", "rating: 14 kW, overhead: 9 kW"
    )
    h = Hall(Toy(site_of(text), cap_w=250.0))
    h.shedding = Shedding(5.0, h.toy.now_ms - 1000, 1)
    h.run(60)
    row = h.site.topology.element_index["row-a"]
    limit = h.site.topology.limit_w[row]
    shares = h.decisions[-1].facts["headroom"]["elements"][row]
    assert shares["limit_w"] == limit
    assert h.decisions[-1].facts["headroom"]["ok"] is False


def test_only_cases_of_loss_get_other_limits_and_the_fallback_gets_none() -> None:
    site = site_of(corrective_hall())
    t = site.topology
    shares = Shares.of(t)
    limit = t.limit_w * 1.5
    more = shares.with_loss_limits(limit)
    rated = np.isfinite(shares.cell_limit_w)
    normal = shares.structure.cell_case == 0
    np.testing.assert_allclose(
        more.cell_limit_w[rated & ~normal], 1.5 * shares.cell_limit_w[rated & ~normal]
    )
    np.testing.assert_array_equal(more.cell_limit_w[normal], shares.cell_limit_w[normal])
    assert more.strict.more_w is None
    facility = load_text(corrective_hall(), "hall.yaml").facility

    plain = Problem.of(t, facility.nodes)
    loose = replace(plain, shares=more)
    assert plain.digest != loose.digest
    assert Rows(loose).limit_w.max() > Rows(plain).limit_w.max()
    assert Rows(loose.for_fallback()).limit_w.max() == Rows(plain.for_fallback()).limit_w.max()
    load = np.full(len(t.loads), 9_000.0)
    assert study_shares(more, load).headroom_w.min() > study_shares(shares, load).headroom_w.min()


def test_it_engaged_while_a_long_lease_of_before_could_still_live() -> None:
    text = corrective_hall() + "agents: {lease: 60 s}\n"
    h = Hall(Toy(site_of(text), cap_w=300.0))
    h.run(5)
    h.shedding = Shedding(5.0, h.toy.now_ms - 1000, 1)
    h.run(60)
    assert told(h)["missing"] == ["the proofs must stand for 65 s: 6 s more"]
    h.run(10)
    assert told(h)["engaged"] is True
