"""What a released hall tells: one story, and nothing of caps that nobody moves."""

from __future__ import annotations

from facility.commands import Mode, Severity
from tests.controllers.rig import Hall
from tests.controllers.toy import Toy, site_of, small_hall


def full(row: str, **modes: Mode) -> Hall:
    """A hall at its boards' maximum on rows that are too small for one loss, or for now."""
    scopes = {"hall": modes["hall"]} | {f"rack:{k}": m for k, m in modes.items() if k != "hall"}
    return Hall(Toy(site_of(small_hall(ROW=row)), cap_w=700.0), modes=scopes, obey=False)


def told(hall: Hall) -> list[str]:
    return [e.key for e in hall.events if e.active and e.parent is None]


def test_a_released_hall_paged_once_per_element() -> None:
    for mode in (Mode.OFF, Mode.OBSERVE):
        hall = full("20 kW", hall=mode)
        hall.run(30)
        assert told(hall) == ["hall_released:hall"]
        assert not [e.key for e in hall.events if e.page]
        folded = [e for e in hall.events if e.kind == "redundancy_lost"]
        assert {e.parent for e in folded} == {"hall_released:hall"}
        assert {e.subject for e in folded} >= {"row-a", "row-b"}
        alarm = hall.raised()["hall_released:hall"]
        assert alarm.severity is Severity.WARNING
        assert "N+1 is not held by Wattkeeper" in alarm.text


def test_a_released_hall_spoke_of_caps_that_nobody_moves() -> None:
    hall = full("20 kW", hall=Mode.OFF)
    last = hall.run(30)
    texts = " ".join(e.text for e in hall.events)
    for untrue in ("Caps may not rise", "No caps fit", "shedding"):
        assert untrue not in texts
    assert "allocation_infeasible:hall" not in hall.raised()
    assert "Wattkeeper moves no caps" in last.facts["sentence"]
    assert "Caps come down" not in last.facts["sentence"]


def test_a_released_hall_over_its_limit_now_pages_once() -> None:
    hall = full("8 kW", hall=Mode.OFF)
    hall.run(30)
    assert [e.key for e in hall.events if e.page] == ["hall_released:hall"]
    alarm = hall.raised()["hall_released:hall"]
    assert alarm.severity is Severity.CRITICAL
    assert "over its limit now" in alarm.text


def test_a_hall_in_auto_still_pages_for_lost_redundancy() -> None:
    hall = full("20 kW", hall=Mode.AUTO)
    hall.run(30)
    assert "hall_released:hall" not in hall.raised()
    assert "Caps may not rise." in hall.raised()["redundancy_lost:row-a"].text


def test_one_rack_in_auto_keeps_the_elements_above_it_ours() -> None:
    hall = full("20 kW", hall=Mode.OFF, r01=Mode.AUTO)
    hall.run(30)
    assert "hall_released:hall" not in hall.raised()
    assert "redundancy_lost:row-a" in told(hall)


def test_a_hall_released_with_room_to_spare_alarms_nobody() -> None:
    hall = Hall(modes={"hall": Mode.OFF})
    hall.run(30)
    assert "hall_released:hall" not in hall.raised()
