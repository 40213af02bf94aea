"""Planning work on the plant, and asking beforehand what it would cost."""

from __future__ import annotations

import asyncio
import base64
import copy
from typing import Any

import httpx2
import numpy as np
import pytest

from api.picture import iso
from api.security import Role
from api.service.statement import signed_by
from facility.commands import Mode
from facility.maintenance import LEAD_MS
from facility.points import Scan
from tests.api.hall import START_MS, MemoryHall, Standing
from tests.api.test_routes import Caller

HOUR_MS = 3_600_000


@pytest.fixture
def api(client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]) -> Caller:
    return Caller(client, as_role[Role.OPERATOR])


def wish(**more: Any) -> dict[str, Any]:
    base = {"reason": "battery test", "ticket": "CHG-7", "end": iso(START_MS + 2 * HOUR_MS)}
    return {**base, **more}


def loop_of(hall: MemoryHall) -> Standing:
    loop = hall.upkeep._loop  # what the cycle was told is what counts
    assert isinstance(loop, Standing)
    return loop


async def test_what_costs_nothing_is_taken_at_once_told_to_the_cycle_and_listed(
    api: Caller, hall: MemoryHall
) -> None:
    body = wish(device="pdu-r01-a", freeze=["rack:r01", "rack:r01"])
    made = await api.ask("POST", "/maintenance", 201, body)
    assert (made["kind"], made["subject"], made["state"]) == ("device", "pdu-r01-a", "open")
    assert made["consequences"] == []
    assert [w.id for w in loop_of(hall).told] == [made["id"]]
    assert loop_of(hall).told[0].freeze == ("rack:r01",)
    listed = await api.get("/maintenance")
    assert [row["id"] for row in listed] == [made["id"]]
    audit = hall.store.audit_log().result()
    assert (audit[0].action, audit[0].subject) == ("maintenance", "device:pdu-r01-a")
    assert audit[0].detail["ticket"] == "CHG-7"


async def test_it_is_refused_with_the_consequences_until_each_is_accepted(
    api: Caller, hall: MemoryHall
) -> None:
    no = await api.ask("POST", "/maintenance", 409, wish(element="PDU-A"))
    assert no["code"] == "not-accepted"
    codes = [one["code"] for one in no["consequences"]]
    assert "single_fed" in codes
    racks = next(one for one in no["consequences"] if one["code"] == "single_fed")["names"]
    assert racks == list(hall.facility.power.racks)
    assert no["accept"] == codes
    assert "pdu-a" in no["detail"]
    assert hall.store.maintenance().result() == []
    some = await api.ask("POST", "/maintenance", 409, wish(element="pdu-a", accept=["dark_racks"]))
    assert some["accept"] == codes
    made = await api.ask("POST", "/maintenance", 201, wish(element="pdu-a", accept=codes))
    assert made["accepted"] == codes
    refused = [e for e in hall.store.audit_log().result() if e.action == "maintenance refused"]
    assert len(refused) == 2


async def test_one_of_three_that_may_fail_costs_no_rack_its_spare(api: Caller) -> None:
    made = await api.ask("POST", "/maintenance", 201, wish(element="ups-a2", accept=[]))
    assert made["consequences"] == []


async def test_the_second_side_on_top_would_darken_every_rack(
    api: Caller, hall: MemoryHall
) -> None:
    body = wish(element="pdu-a", accept=["single_fed", "cooling_short"])
    await api.ask("POST", "/maintenance", 201, body)
    no = await api.ask("POST", "/maintenance", 409, wish(element="pdu-b", accept=["single_fed"]))
    assert no["consequences"][0]["code"] == "dark_racks"
    assert no["consequences"][0]["names"] == list(hall.facility.power.racks)
    later = iso(START_MS + 3 * HOUR_MS)
    body = wish(element="pdu-b", start=later, end=iso(START_MS + 4 * HOUR_MS))
    no = await api.ask("POST", "/maintenance", 409, body)
    assert "dark_racks" not in no["accept"]


async def test_a_cdu_is_out_for_cooling(api: Caller, hall: MemoryHall) -> None:
    body = wish(cdu="cdu-1", accept=["cooling_short"])
    made = await api.ask("POST", "/maintenance", 201, body)
    assert (made["kind"], made["subject"]) == ("load", "cdu-1")
    inputs = loop_of(hall).inputs
    assert inputs is not None
    assert inputs.taken_out == ("load:cdu-1",)


async def test_it_ends_by_itself_and_by_hand(api: Caller, hall: MemoryHall) -> None:
    first = await api.ask("POST", "/maintenance", 201, wish(rack="r01"))
    second = await api.ask("POST", "/maintenance", 201, wish(rack="r02"))
    over = await api.ask("DELETE", f"/maintenance/{first['id']}")
    assert over["state"] == "over"
    assert [w.id for w in loop_of(hall).told] == [second["id"]]
    await api.ask("DELETE", f"/maintenance/{first['id']}", 404)
    hall.clock.turn(3 * 3600.0)
    assert await api.get("/maintenance") == []
    past = await api.get("/maintenance?past=true")
    assert {row["ended_by"] for row in past} == {"operator", None}
    assert {row["state"] for row in past} == {"over"}


async def test_it_survives_a_restart(api: Caller, hall: MemoryHall) -> None:
    made = await api.ask("POST", "/maintenance", 201, wish(rack="r01", freeze=["hall"]))
    loop = loop_of(hall)
    loop.told = ()
    del hall.__dict__["upkeep"]
    await hall.upkeep.restore()
    assert [w.id for w in loop_of(hall).told] == [made["id"]]
    assert loop_of(hall).told[0].freeze == ("hall",)


WRONG: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({}, 422, "exactly one"),
    ({"element": "pdu-a", "rack": "r01"}, 422, "exactly one"),
    ({"element": "pdu-x"}, 404, "did you mean"),
    ({"rack": "r01", "end": iso(START_MS - HOUR_MS)}, 409, "ends before"),
    ({"rack": "r01", "start": iso(START_MS - HOUR_MS)}, 409, "passed"),
    ({"rack": "r01", "end": "2027-11-30T15:00:00Z"}, 409, "at most 30 days"),
    ({"rack": "r01", "start": "9999-12-31T23:59:59Z"}, 409, "ends before"),
    ({"rack": "r01", "end": "2026-11-30T15:00:00"}, 422, "timezone"),
    ({"rack": "r01", "freeze": ["rack:r99"]}, 404, "no scope"),
    ({"rack": "r01", "accept": ["everything"]}, 422, "dark_racks"),
    ({"rack": "r01", "reason": "x"}, 422, "3"),
    ({"rack": "r01", "ticket": "CHG-7\nall clear"}, 422, "body.ticket"),
    ({"rack": "r01", "ticket": "\u202eCHG-7"}, 422, "body.ticket"),
)


async def test_what_cannot_be_is_refused_in_words(api: Caller, hall: MemoryHall) -> None:
    for more, status, says in WRONG:
        body = {"reason": "battery test", "end": iso(START_MS + HOUR_MS), **more}
        answer = await api.ask("POST", "/maintenance", status, body)
        assert says in answer["detail"], more
    assert hall.store.maintenance().result() == []


# ---- may I open it then? ------------------------------------------------------------------------


async def test_the_answer_is_signed_and_says_what_it_stands_on(
    api: Caller, hall: MemoryHall
) -> None:
    at = iso(START_MS + 24 * HOUR_MS)
    document = await api.get(f"/switching/ups-a2?at={at}&for=120")
    statement = document["statement"]
    key = await api.get("/statements/key")
    assert signed_by(document, base64.b64decode(key["public_key"])) is None
    assert statement["asked_by"] == "operator"
    assert statement["config_sha256"] == hall.config_sha256
    assert statement["forecast"]["basis"].startswith("no history of that hour")
    assert len(statement["forecast"]["worst_case"]) == len(statement["forecast"]["loads"])
    assert [s["step"] for s in statement["steps"]] == [
        "secure",
        "transfer",
        "open_input",
        "open_output",
        "isolate",
        "work",
        "close_input",
        "close_output",
        "transfer_back",
        "done",
    ]
    opened = statement["steps"][2]
    assert opened["dark_racks"] == []
    assert {row["case"] for row in opened["further_loss"]["darkens"]} == set()
    assert statement["data"]["age_s"] is not None
    assert "Statement " + statement["id"] in statement["text"]
    assert statement["window"]["text"].startswith("Tuesday 2026-12-01")
    asked = hall.store.audit_log().result()[0]
    assert (asked.action, asked.subject) == ("switching asked", "element:ups-a2")
    assert asked.detail["signature"] == document["signature"]["value"]
    assert (await api.ask("POST", "/statements/verify", 200, document))["valid"]


async def test_a_changed_letter_another_file_a_loss_or_time_ends_its_validity(
    api: Caller, hall: MemoryHall
) -> None:
    document = await api.get("/switching/ups-a2?for=60")
    forged = copy.deepcopy(document)
    forged["statement"]["answer"] = "yes, of course"
    found = await api.ask("POST", "/statements/verify", 200, forged)
    assert not found["signed"]
    assert found["why"] == ["the statement is not what was signed"]
    await api.ask("POST", "/maintenance", 201, wish(element="ups-a1", accept=["redundancy_lost"]))
    found = await api.ask("POST", "/statements/verify", 200, document)
    assert found["signed"]
    assert found["why"] == ["also out then: element:ups-a1"]
    hall.clock.turn(7200.0)
    found = await api.ask("POST", "/statements/verify", 200, document)
    assert "it was valid until" in found["why"][0]


async def test_the_statement_of_a_hall_of_a_thousand_racks_can_be_verified(api: Caller) -> None:
    """It was refused: it lists every load, and bodies had at most 64 KiB."""
    document = await api.get("/switching/ups-a2?for=60")
    document["statement"]["forecast"]["loads"] = {f"rack-{i:05}": 1.0 for i in range(10_000)}
    found = await api.ask("POST", "/statements/verify", 200, document)
    assert found["why"] == ["the statement is not what was signed"]
    await api.ask("POST", "/statements/verify", 413, {"statement": "x" * 4_200_000})


JUNK: tuple[dict[str, Any], ...] = (
    {},
    {"statement": 1, "signature": 2},
    {"statement": {}, "signature": {}},
    {"statement": {}, "signature": {"algorithm": "Ed25519", "key_id": None, "value": "!"}},
    {"statement": {"form": "x"}, "signature": {"algorithm": "none"}},
)


async def test_junk_is_not_signed(api: Caller) -> None:
    for junk in JUNK:
        found = await api.ask("POST", "/statements/verify", 200, junk)
        assert (found["signed"], found["valid"]) == (False, False)


async def test_the_side_of_all_racks_is_answered_with_what_must_be_accepted(api: Caller) -> None:
    statement = (await api.get("/switching/pdu-a?for=60"))["statement"]
    assert statement["answer"] in ("if accepted", "no")
    opened = next(s for s in statement["steps"] if s["step"] == "open_output")
    assert len(opened["single_fed"]) == 8
    lost = {row["case"] for row in opened["further_loss"]["darkens"]}
    assert "loss of pdu-b" in lost
    assert "on their last feed" in statement["text"]


async def test_the_same_hour_of_past_weeks_is_the_forecast(api: Caller, hall: MemoryHall) -> None:
    at_ms = START_MS + 24 * HOUR_MS
    for layout in hall.table.layouts:
        if not layout.device.startswith("pdu-r"):
            continue
        for week in (1, 2):
            start = at_ms - week * 7 * 24 * HOUR_MS
            for minute in range(0, 60, 5):
                watts = 7_000.0 if (week, minute) == (2, 30) else 6_000.0
                values = np.array(
                    [watts if p.id.kind == "active_power" else 1.0 for p in layout.points]
                )
                when = start + minute * 60_000
                quality = np.zeros(len(layout), dtype=np.uint8)
                hall.store.put(Scan(layout, values, quality, when, when, when / 1e3))
    hall.store.flush().result()
    statement = (await api.get(f"/switching/ups-a2?at={iso(at_ms)}&for=60"))["statement"]
    forecast = statement["forecast"]
    assert forecast["weeks"] == 2
    assert forecast["loads"]["r01"] == pytest.approx(14_000.0 * 1.02)
    assert forecast["from_history"] == 8
    assert set(forecast["worst_case"]) == {"cdu-1", "cdu-2"}
    assert "p99 of 15-min maxima, Tuesday 2026-12-01" in forecast["basis"]
    assert "2 of 10 loads at nameplate" in forecast["basis"]


async def test_the_answer_for_an_element_that_is_planned_already_is_not_that_it_costs_nothing(
    api: Caller,
) -> None:
    """It was: two minutes after a plan that takes spare feeds away, the statement said yes."""
    before = (await api.get("/switching/pdu-a?for=60"))["statement"]
    accept = ["single_fed", "cooling_short", "redundancy_lost"]
    await api.ask("POST", "/maintenance", 201, wish(element="pdu-a", accept=accept))
    after = (await api.get("/switching/pdu-a?for=60"))["statement"]
    assert before["answer"] != "yes"
    assert (after["answer"], after["consequences"]) == (before["answer"], before["consequences"])
    assert after["other_work"] == []
    again = await api.ask("POST", "/maintenance", 409, wish(element="pdu-a"))
    assert "single_fed" in again["accept"]


async def test_two_plans_at_once_are_priced_one_after_the_other(api: Caller) -> None:
    accept = ["single_fed", "cooling_short", "redundancy_lost"]
    bodies = [wish(element=name, accept=accept) for name in ("pdu-a", "pdu-b")]
    asked = (api.ask("POST", "/maintenance", 201, body) for body in bodies)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [str(answer) for answer in answers if isinstance(answer, AssertionError)]
    assert len(refused) == 1
    assert "dark_racks" in refused[0]


async def test_work_of_another_day_is_priced_at_the_load_of_that_day(
    api: Caller, hall: MemoryHall
) -> None:
    hall.set_modes["hall"] = Mode.OBSERVE
    start = {"start": iso(START_MS + 24 * HOUR_MS), "end": iso(START_MS + 26 * HOUR_MS)}
    at = f"at={start['start']}&for=120"
    statement = (await api.get(f"/switching/row1-a?{at}"))["statement"]
    no = await api.ask("POST", "/maintenance", 409, wish(element="row1-a", **start))
    assert no["consequences"] == statement["consequences"]
    now = await api.ask("POST", "/maintenance", 409, wish(element="row1-a"))
    assert now["consequences"] != no["consequences"]


async def test_yes_promises_no_survival_to_racks_that_have_one_feed_anyway(api: Caller) -> None:
    accept = ["single_fed", "cooling_short", "redundancy_lost"]
    await api.ask("POST", "/maintenance", 201, wish(element="row1-a", accept=accept))
    statement = (await api.get("/switching/ups-b2?for=60"))["statement"]
    assert statement["answer"] == "yes"
    assert "not every further loss is survivable" in statement["verdict"]
    assert "any further single loss" not in statement["verdict"]
    assert "r01-r04 have no spare feed with or without it" in statement["verdict"]


async def test_times_that_cannot_be_and_elements_that_are_not_are_refused(api: Caller) -> None:
    await api.get("/switching/ups-zz", 404)
    await api.get(f"/switching/ups-a2?at={iso(START_MS - HOUR_MS)}", 409)
    await api.get("/switching/ups-a2?for=0", 422)
    await api.get("/switching/ups-a2?at=noon", 422)
    assert LEAD_MS == 120_000
