"""After a real loss nothing moves until `resecure` says so; a return ends the wait."""

from __future__ import annotations

import pytest

from facility.maintenance import Maintenance
from tests.conftest import ROOT
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of

DEMO = (ROOT / "facility" / "demo.yaml").read_text(encoding="utf-8")


def hall(resecure: str) -> Hall:
    """The demo hall at caps that hold N+1, in its normal state."""
    text = DEMO.replace("resecure: 15 min", f"resecure: {resecure}")
    made = Hall(Toy(site_of(text), cap_w=380.0, share=0.98))
    made.run(25)
    assert made.decisions[-1].facts["headroom"]["ok"]
    made.decisions.clear()
    made.events.clear()
    return made


def lose(made: Hall) -> None:
    """UPS-A1 gives no output, its siblings take its load: two signs."""
    made.toy.changes["ups-a1:total:active_power"] = 0.0
    made.toy.changes["ups-a1:total:state"] = 2.0


def restore(made: Hall) -> None:
    del made.toy.changes["ups-a1:total:active_power"], made.toy.changes["ups-a1:total:state"]


def moved(made: Hall, *, up: bool) -> list[int]:
    """Seconds after the loss at which some cap went up or down."""
    return [
        i
        for i, d in enumerate(made.decisions)
        if any(c.raises is up and c.point.kind == "power_cap" for c in d.commands)
    ]


def lowered_after(made: Hall) -> list[int]:
    return moved(made, up=False)


def raised_after(made: Hall) -> list[int]:
    return moved(made, up=True)


def test_caps_hold_for_the_time_of_the_file_and_then_come_down() -> None:
    made = hall("20 s")
    lose(made)
    made.run(18)
    facts = made.decisions[-1].facts
    assert facts["losses"]["lost"] == ["ups-a1"]
    assert not facts["headroom"]["ok"]
    # What the loss itself broke is told, and forbids raises; nothing else moves.
    assert lowered_after(made) == []
    assert raised_after(made) == []
    assert "element_lost:ups-a1" in made.raised()
    assert any(key.startswith("redundancy_lost:") for key in made.raised())
    assert "Caps hold until" in facts["sentence"]
    made.run(25)
    assert min(lowered_after(made)) in range(20, 27)
    made.run(10)
    assert made.decisions[-1].facts["headroom"]["ok"]


def test_never_means_that_a_person_decides() -> None:
    made = hall("never")
    lose(made)
    made.run(60)
    assert lowered_after(made) == []
    assert raised_after(made) == []
    assert "Caps hold." in made.decisions[-1].facts["sentence"]


def test_at_once_means_as_soon_as_the_loss_is_believed() -> None:
    made = hall("at once")
    lose(made)
    made.run(12)
    assert min(lowered_after(made)) <= 8


def test_an_element_that_returns_in_time_costs_nothing() -> None:
    made = hall("20 s")
    lose(made)
    made.run(10)
    restore(made)
    made.run(30)
    assert made.decisions[-1].facts["losses"]["lost"] == []
    assert lowered_after(made) == []
    assert made.decisions[-1].facts["headroom"]["ok"]


@pytest.mark.parametrize("step_s", [-86_400, 86_400, -30, 30])
def test_a_step_of_the_clock_neither_delays_nor_hastens_the_return_to_n_plus_1(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hall("20 s")
    lose(made)
    made.run(8)
    now = Toy.now_ms.fget
    assert now is not None
    stepped = property(lambda toy: now(toy) + 1000 * step_s)
    monkeypatch.setattr(Toy, "now_ms", stepped)
    made.run(10)
    assert lowered_after(made) == []
    made.run(25)
    assert min(lowered_after(made)) in range(20, 27)
    assert made.decisions[-1].facts["headroom"]["ok"]


@pytest.mark.parametrize("resecure", ["never", "20 s"])
def test_maintenance_always_resecures_first(resecure: str) -> None:
    made = hall(resecure)
    now_ms = made.toy.now_ms
    work = Maintenance("m1", "element", "ups-a1", "kim", "fans", "", now_ms, now_ms + 3_600_000)
    made.maintenance = (work,)
    made.run(12)
    assert min(lowered_after(made)) <= 8
    assert made.decisions[-1].facts["headroom"]["ok"]


def test_on_one_sign_nothing_is_lost_nothing_rises_and_both_worlds_are_checked() -> None:
    made = hall("at once")
    made.toy.broken.add("ups-a1")
    made.run(30)
    facts = made.decisions[-1].facts
    assert facts["losses"]["lost"] == []
    assert facts["losses"]["suspected"] == ["ups-a1"]
    assert raised_after(made) == []
    # The world in which it is lost is one of the cases that caps are held to anyway.
    assert facts["headroom"]["ok"]
