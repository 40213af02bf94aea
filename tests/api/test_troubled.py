"""The page says which device, since when and why: an operator at night asks no API."""

from __future__ import annotations

from api.hall import DeviceStatus
from api.web.troubled import SHOWN, troubled


def status(name: str, state: str = "bad", **more: object) -> DeviceStatus:
    return DeviceStatus(name, "pdu/apc-rpdu2", "snmp://h", state, 1, **more)  # type: ignore[arg-type]


def test_devices_that_are_well_or_not_asked_yet_are_not_shown() -> None:
    assert troubled([status("a", "good"), status("b", "unknown")]) == {"rows": [], "more": 0}


def test_each_row_says_what_is_wrong_and_why() -> None:
    found = troubled(
        [
            status("late", "slow", detail="a look took 9 s"),
            status("odd", "good", doubts=("one", "two", "three")),
            status("other", "good", detail="it is a UPS"),
            status("dead", detail="no answer"),
        ]
    )
    told = {row["device"]: (row["state"], row["why"]) for row in found["rows"]}
    assert next(iter(told)) == "dead"
    assert told == {
        "dead": ("no values", "no answer"),
        "late": ("slow", "a look took 9 s"),
        "odd": ("doubtful", "one; two; and 1 more"),
        "other": ("doubtful", "it is a UPS"),
    }


def test_a_device_never_heard_has_no_time_and_one_that_speaks_needs_none() -> None:
    never = DeviceStatus("n", "p", "e", "bad", None)
    rows = troubled([never, status("gone"), status("slow", "slow")])["rows"]
    assert [(row["never"], row["last_ms"]) for row in rows] == [
        (True, None),
        (False, 1),
        (False, None),
    ]


def test_silent_nodes_do_not_push_a_dead_meter_off_the_page() -> None:
    nodes = [DeviceStatus(f"n{i}", "node/agent", "broker", "bad", None) for i in range(50)]
    found = troubled([*nodes, status("meter", "slow")])
    assert found["rows"][0]["device"] == "meter"
    assert (len(found["rows"]), found["more"]) == (SHOWN, 51 - SHOWN)
