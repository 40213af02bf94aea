"""Drills over the API: anybody may suppose, only an engineer may shed, and only where allowed."""

from __future__ import annotations

from dataclasses import replace

import httpx2

from api.security import Role
from facility.drills import Drill
from tests.api.hall import START_MS, MemoryHall

V1 = "/api/v1"


async def test_a_viewer_sees_what_a_loss_would_leave_and_demand(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.scan()
    hall.run_cycle()
    answer = await client.post(
        f"{V1}/drills", json={"element": "PDU-B"}, headers=as_role[Role.VIEWER]
    )
    assert answer.status_code == 200
    body = answer.json()
    assert body["element"] == "pdu-b"
    assert body["kind"] == "what_if"
    assert body["headroom"]["cases"] > 5
    assert body["may_drill"] is False
    assert "control.drills" in body["because"]


async def test_a_shed_needs_an_engineer_a_reason_and_a_site_that_allows_it(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.scan()
    hall.run_cycle()
    wish = {"element": "pdu-b", "kind": "shed", "reason": "yearly proof"}
    refused = await client.post(f"{V1}/drills", json=wish, headers=as_role[Role.OPERATOR])
    assert refused.status_code == 403
    assert refused.json()["needs"] == "engineer"
    bare = {"element": "pdu-b", "kind": "shed"}
    unsaid = await client.post(f"{V1}/drills", json=bare, headers=as_role[Role.ENGINEER])
    assert unsaid.status_code == 422
    closed = await client.post(f"{V1}/drills", json=wish, headers=as_role[Role.ENGINEER])
    assert closed.status_code == 409
    assert "does not allow drills" in closed.json()["detail"]


async def test_an_unknown_element_is_named_with_what_was_meant(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.scan()
    hall.run_cycle()
    answer = await client.post(
        f"{V1}/drills", json={"element": "pdu-bb"}, headers=as_role[Role.VIEWER]
    )
    assert answer.status_code == 404
    assert "did you mean pdu-b" in answer.json()["detail"]


async def test_drills_are_listed_with_what_was_measured(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    report = {"shed_s": {"p50": 0.4, "p99": 1.2, "max": 1.2}, "missing": []}
    drill = Drill("d1", "pdu-b", "ada", "yearly", START_MS)
    hall.store.save_drill(drill).result()
    hall.store.save_drill(
        replace(drill, ended_ms=START_MS + 5000, state="done", report=report)
    ).result()
    answer = await client.get(f"{V1}/drills", headers=as_role[Role.VIEWER])
    told = answer.json()[0]
    assert (told["state"], told["report"]["shed_s"]["p99"]) == ("done", 1.2)
    assert told["ended"].startswith("2026-11-30T15:00:05")


async def test_a_drill_that_a_crash_cut_short_is_closed_at_the_next_start(
    hall: MemoryHall,
) -> None:
    hall.store.save_drill(Drill("d1", "pdu-b", "ada", "yearly", START_MS)).result()
    await hall.drills.restore()
    left = (await hall.drills.listed())[0]
    assert left.state == "aborted"
    assert left.ended_ms is not None
