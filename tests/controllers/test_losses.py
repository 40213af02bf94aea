"""A loss is believed on two signs; one sign is a suspicion; blindness is neither."""

from __future__ import annotations

import pytest

from controllers.losses import Losses, LossMemory, believe
from tests.conftest import ROOT
from tests.controllers.toy import Toy, site_of, small_hall

DEMO = (ROOT / "facility" / "demo.yaml").read_text(encoding="utf-8")


class Watch:
    def __init__(self, text: str) -> None:
        self.site = site_of(text)
        self.toy = Toy(self.site, cap_w=350.0)
        self.memory = LossMemory()
        self.losses = Losses((), (), {})

    def run(self, seconds: int) -> Losses:
        for _ in range(seconds):
            self.losses, self.memory = believe(
                self.site, self.site.topology, self.toy.snapshot(), self.memory
            )
            self.toy.advance()
        return self.losses


def test_nothing_is_lost_in_a_healthy_hall() -> None:
    watch = Watch(DEMO)
    assert watch.run(20) == Losses((), (), {})


def test_a_dead_pdu_with_silent_meters_and_empty_upstream_is_believed() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.dead_feeds.add("b")
    watch.toy.broken |= {f"pdu-r0{i}-b" for i in range(1, 9)}
    first = watch.run(1)
    assert (first.lost, first.coming) == ((), ("pdu-b",))
    losses = watch.run(3)
    assert (losses.lost, losses.coming) == (("pdu-b",), ())
    assert "carries nothing" in losses.because["pdu-b"]


def test_feed_meters_at_nothing_and_the_other_side_taking_over_are_two_signs() -> None:
    watch = Watch(small_hall())
    watch.run(20)
    watch.toy.dead_feeds.add("b")
    lost = watch.run(4).lost
    assert len(lost) == 1
    assert lost[0] in ("row-b", "ups-b1")


def test_without_any_meter_upstream_the_other_feeds_taking_over_is_the_second_sign() -> None:
    lines = [line for line in small_hall().splitlines() if "ups/rfc1628" not in line]
    watch = Watch("\n".join(lines))
    watch.run(20)
    watch.toy.dead_feeds.add("b")
    watch.toy.broken |= {"pdu-r01-b", "pdu-r02-b"}
    losses = watch.run(4)
    assert len(losses.lost) == 1
    assert "took over" in losses.because[losses.lost[0]]


def test_a_ups_module_that_says_so_and_whose_siblings_took_over_is_believed() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.changes["ups-a1:total:active_power"] = 0.0
    watch.toy.changes["ups-a1:total:state"] = 2.0
    assert watch.run(4).lost == ("ups-a1",)


def test_a_ups_that_is_only_silent_is_a_suspicion() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.broken.add("ups-a1")
    losses = watch.run(10)
    assert losses.lost == ()
    assert losses.suspected == ("ups-a1",)


@pytest.mark.parametrize("racks", [("r01", "r02"), ("r05",)])
def test_dead_meters_of_some_racks_are_no_loss_while_others_carry(racks: tuple[str, ...]) -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.broken |= {f"pdu-{r}-{side}" for r in racks for side in "ab"}
    losses = watch.run(10)
    assert losses.lost == ()
    assert losses.suspected == ()


def test_when_every_meter_is_silent_we_are_blind_and_nothing_died() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.broken |= set(watch.site.facility.devices)
    losses = watch.run(10)
    assert losses.lost == ()
    assert losses.suspected == ()


def test_a_loss_ends_when_its_signs_are_gone_for_a_while() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.dead_feeds.add("b")
    assert watch.run(4).lost
    watch.toy.dead_feeds.clear()
    assert watch.run(3).lost
    assert watch.run(5).lost == ()


def test_our_own_blindness_does_not_end_a_loss() -> None:
    watch = Watch(DEMO)
    watch.run(20)
    watch.toy.dead_feeds.add("b")
    lost = watch.run(4).lost
    watch.toy.broken |= set(watch.site.facility.devices)
    assert watch.run(30).lost == lost
