"""What the routes answer, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from api.hall import DeviceStatus
from api.problems import CODES, MEDIA_TYPE
from api.security import Role
from facility.commands import Mode, Severity
from facility.store.errors import StoreUnavailable
from tests.api.hall import START_MS, MemoryHall, alarm

CAP = "r01-n1:total:power_cap"
POWER = "pdu-r01-a:total:active_power"


class Caller:
    """A client with a role that reads JSON and insists on the status."""

    def __init__(self, client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
        self._client, self._headers = client, headers

    async def ask(
        self, method: str, path: str, status: int = 200, body: Any = None, **more: Any
    ) -> Any:
        answer = await self._client.request(
            method, f"/api/v1{path}", json=body, headers=self._headers, **more
        )
        assert answer.status_code == status, answer.text
        if status >= 400:
            assert answer.headers["content-type"] == MEDIA_TYPE
            found = answer.json()
            assert CODES[found["code"]][0] == status
            assert found["status"] == status
            assert found["detail"]
            assert found["instance"] == f"/api/v1{path}".partition("?")[0]
            return found
        return answer.json(parse_constant=_no_constants)

    async def get(self, path: str, status: int = 200) -> Any:
        return await self.ask("GET", path, status)


def _no_constants(name: str) -> float:
    raise AssertionError(f"{name} in an answer")


@pytest.fixture
def api(client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]) -> Caller:
    return Caller(client, as_role[Role.ENGINEER])


async def test_facility_says_what_an_operator_must_know(api: Caller, hall: MemoryHall) -> None:
    found = await api.get("/facility")
    assert found["name"] == "Demo hall"
    assert found["sentence"] == hall.decision().facts["sentence"]  # type: ignore[union-attr]
    assert found["trust"]["good"] == len(hall.table)
    assert found["racks"] == [f"r0{i}" for i in range(1, 9)]
    assert found["modes"] == {"hall": "auto"}


async def test_before_the_first_cycle_nothing_is_zero(
    as_role: dict[Role, dict[str, str]], hall: MemoryHall, client: httpx2.AsyncClient
) -> None:
    hall.latest = hall.seen = None
    api = Caller(client, as_role[Role.VIEWER])
    rack = (await api.get("/racks"))[0]
    for name in ("power_w", "load_w", "headroom_w", "cap_low_w", "tokens_per_joule", "inlet_c"):
        assert rack[name] is None, name
    assert rack["why_no_power"] == "pdu-r01-a: not read yet"
    assert (await api.get("/facility"))["state"] == "unknown"
    assert (await api.get(f"/readings/{POWER}"))["value"] is None
    assert (await api.get("/headroom", 503))["code"] == "unavailable"
    assert (await api.get("/allocation", 503))["code"] == "unavailable"
    assert (await api.get("/decisions/latest", 503))["code"] == "unavailable"


async def test_a_rack_with_a_silent_meter_has_no_power_and_says_which(
    api: Caller, hall: MemoryHall
) -> None:
    hall.dead.add("pdu-r02-b")
    hall.scan()
    hall.run_cycle()
    racks = {rack["rack"]: rack for rack in await api.get("/racks")}
    assert racks["r02"]["power_w"] is None
    assert racks["r02"]["why_no_power"] == "pdu-r02-b: no answer"
    assert racks["r01"]["power_w"] == 2 * 11_800.0
    assert racks["r01"]["cap_low_w"] == 512.0
    devices = await api.get("/devices?state=bad")
    assert [device["device"] for device in devices] == ["pdu-r02-b"]
    reading = await api.get("/readings/pdu-r02-b:total:active_power")
    assert (reading["value"], reading["quality"], reading["flaw"]) == (None, "bad", "timeout")


@pytest.mark.parametrize(
    "path",
    [
        "/racks/nope",
        "/devices/nope",
        "/points/nope",
        "/points/a:b:nope",
        "/points/x:total:active_power/history",
        "/readings/x:total:active_power",
        "/readings?point=x:total:active_power",
        "/headroom?fail=nope",
        "/decisions/99999",
        "/release/rack:nope",
        "/points?after=nope",
    ],
)
async def test_what_is_not_there_is_404(api: Caller, path: str) -> None:
    assert (await api.get(path, 404))["code"] == "not-found"


async def test_a_rack_whose_nodes_differ_says_how_many_the_reason_holds_for(
    api: Caller, hall: MemoryHall
) -> None:
    decision = hall.run_cycle()
    (first, *rest) = decision.setpoints
    odd = replace(first, because="held by anna")
    hall.latest = replace(decision, setpoints=(odd, *rest))
    rack = await api.get("/racks/r01")
    assert rack["because"] == "ups-a2 after loss of ups-a1: 512 W of 700 W (3 of 4 nodes)"
    hall.latest = replace(
        decision, setpoints=(), facts={"allocation": {"nodes": {"r01-n1": {"because": "fallback"}}}}
    )
    assert (await api.get("/racks/r01"))["because"] == "fallback"
    assert (await api.get("/racks/r02"))["because"] == ""


async def test_points_are_paged_without_loss_or_repetition(api: Caller, hall: MemoryHall) -> None:
    seen: list[str] = []
    after = ""
    while True:
        page = await api.get(f"/points?limit=50{after}")
        seen += [item["point"] for item in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == [str(spec.id) for spec in hall.table.specs]
    some = await api.get("/points?kind=power_cap&writable=true&limit=1000")
    assert {item["kind"] for item in some["items"]} == {"power_cap"}
    assert {item["unit"] for item in some["items"]} == {"W"}
    assert len(some["items"]) == len(hall.facility.nodes)


async def test_readings_come_in_the_order_asked_and_by_filter(api: Caller) -> None:
    found = await api.get(f"/readings?point={CAP}&point={POWER}")
    assert [r["point"] for r in found] == [CAP, POWER]
    assert found[0]["value"] == 512.0
    assert {r["unit"] for r in await api.get("/readings?kind=temperature")} == {"degC"}


async def test_history_in_json_and_csv_keeps_gaps(
    api: Caller, hall: MemoryHall, client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]
) -> None:
    for _ in range(5):
        hall.clock.turn(60)
        hall.dead = {"pdu-r01-a"} if hall.clock.ms == START_MS + 121_000 else set()
        hall.scan()
    raw = await api.get(f"/points/{POWER}/history?from=2026-11-30T15:00:00Z")
    assert [s["mean"] for s in raw["samples"]].count(None) == 1
    assert raw["unit"] == "W"
    query = "from=2026-11-30T14:58:00Z&to=2026-11-30T15:06:00Z&step=60"
    bucketed = await api.get(f"/points/{POWER}/history?{query}")
    assert [s["mean"] for s in bucketed["samples"]] == [None, None] + [11800.0] * 2 + [None] + [
        11800.0
    ] * 3
    answer = await client.get(
        f"/api/v1/points/{POWER}/history?{query}",
        headers=as_role[Role.VIEWER] | {"accept": "text/csv"},
    )
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0][:2] == ["at", "mean (W)"]
    assert [row[1] for row in rows[1:]] == ["", "", "11800.0", "11800.0", "", *["11800.0"] * 3]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("from=yesterday", "query.from"),
        ("from=2026-11-30T15:00:00", "query.from"),
        ("from=2026-11-30T16:00:00Z&to=2026-11-30T15:00:00Z", "query.from"),
        ("step=0", "query.step"),
        ("step=-1", "query.step"),
        ("step=nan", "query.step"),
        ("step=x", "query.step"),
        ("format=xml", "query.format"),
    ],
)
async def test_history_refuses_nonsense_and_says_where(api: Caller, query: str, where: str) -> None:
    found = await api.get(f"/points/{POWER}/history?{query}", 422)
    assert [error["where"] for error in found["errors"]] == [where]


async def test_history_that_would_be_too_long_is_refused(api: Caller) -> None:
    query = "from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&step=1"
    assert (await api.get(f"/points/{POWER}/history?{query}", 422))["code"] == "too-much"


async def test_what_if_studies_the_loss_and_changes_nothing(api: Caller, hall: MemoryHall) -> None:
    before = await api.get("/headroom")
    lost = await api.get("/headroom?fail=ups-a1&fail=ups-a2")
    rows = {row["element"]: row for row in lost["elements"]}
    assert rows["row1-a"]["normal_w"] == 0.0
    assert rows["row1-b"]["normal_w"] == 4 * hall.rack_load_w
    assert await api.get("/headroom") == before


async def test_the_single_line_diagram_comes_as_data_too(api: Caller, hall: MemoryHall) -> None:
    now = await api.get("/single-line")
    assert {row["state"] for row in now["elements"]} == {"up"}
    assert now["caps"] is None
    lost = await api.get("/single-line?fail=PDU-A")
    rows = {row["element"]: row for row in lost["elements"]}
    assert (rows["pdu-a"]["state"], rows["row1-a"]["state"]) == ("failed", "dead")
    assert rows["row1-a"]["load_w"] is None
    assert rows["row1-b"]["moved_w"] == pytest.approx(2 * hall.rack_load_w)
    assert {row["state"] for row in lost["racks"]} == {"last feed"}
    assert lost["cooling"]["loop-1"]["capacity_w"] == 320_000.0
    await api.get("/single-line?fail=nope", 404)


async def test_decisions_carry_their_reasons_and_what_became_of_them(
    api: Caller, hall: MemoryHall
) -> None:
    latest = await api.get("/decisions/latest")
    assert latest["setpoints"][0]["because"].startswith("ups-a2 after loss of ups-a1")
    assert latest["setpoints"][0]["unit"] == "W"
    assert latest["facts"]["headroom"]["cases"] == 15
    assert latest["withheld"][0]["reason"] == "data of r02 not good"
    listed = await api.get("/decisions?limit=10")
    assert listed[0]["facts"] is None
    one = await api.get(f"/decisions/{listed[0]['id']}")
    assert one["commands"][0]["outcome"] is None
    assert one["cycle"] == hall.cycle
    assert await api.get("/decisions?subject=r01-n1") != []
    assert await api.get("/decisions?subject=r08-n4") == []
    assert await api.get(f"/decisions?before={listed[-1]['id']}") == []


async def test_numbers_that_do_not_exist_are_null_in_facts(api: Caller, hall: MemoryHall) -> None:
    hall.run_cycle(odd={"a": math.nan, "b": [math.inf, 1.0]})
    assert (await api.get("/decisions/latest"))["facts"]["odd"] == {"a": None, "b": [None, 1.0]}


async def test_an_override_is_granted_bounded_listed_and_ended(
    api: Caller, hall: MemoryHall
) -> None:
    wish = {"point": CAP, "value": 800, "minutes": 30, "reason": "finish the job"}
    granted = await api.ask("POST", "/overrides", 201, wish)
    assert (granted["asked"], granted["value"], granted["bounded_by"]) == (800.0, 700.0, "max_cap")
    assert granted["until"] == "2026-11-30T15:30:01.000Z"
    assert [o["id"] for o in await api.get("/overrides")] == [granted["id"]]
    ended = await api.ask("DELETE", f"/overrides/{granted['id']}")
    assert ended["id"] == granted["id"]
    assert await api.get("/overrides") == []
    assert (await api.ask("DELETE", f"/overrides/{granted['id']}", 404))["code"] == "not-found"
    audit = await api.get("/audit")
    assert [line["action"] for line in audit] == ["override ended", "override"]
    assert audit[1]["actor"] == "engineer"
    assert audit[1]["detail"]["reason"] == "finish the job"


async def test_an_override_that_does_not_fit_names_what_binds_and_is_audited(api: Caller) -> None:
    wish = {"point": CAP, "value": 950, "minutes": 30, "reason": "finish the job"}
    refused = await api.ask("POST", "/overrides", 409, wish)
    assert refused["bounded_by"] == "ups-a2 after loss of ups-a1"
    assert (await api.get("/audit"))[0]["action"] == "override refused"
    wish["point"] = POWER
    assert (await api.ask("POST", "/overrides", 409, wish))["bounded_by"] == "profile"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"value": "NaN"}, "body.value"),
        ({"value": None}, "body.value"),
        ({"minutes": 0}, "body.minutes"),
        ({"minutes": 1e9}, "body.minutes"),
        ({"reason": "  "}, "body.reason"),
        ({"reason": "x" * 501}, "body.reason"),
        ({"reason": "a\x00bc"}, "body.reason"),
        ({"extra": 1}, "body.extra"),
    ],
)
async def test_a_wish_that_is_not_valid_says_where(
    api: Caller, hall: MemoryHall, change: dict[str, Any], where: str
) -> None:
    wish = {"point": CAP, "value": 450, "minutes": 30, "reason": "finish the job"} | change
    found = await api.ask("POST", "/overrides", 422, wish)
    assert [error["where"] for error in found["errors"]] == [where]
    assert hall.held == {}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_numbers_that_are_not_finite_are_refused(
    client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]], hall: MemoryHall, number: str
) -> None:
    body = f'{{"point": "{CAP}", "value": {number}, "minutes": 5, "reason": "drill"}}'
    headers = as_role[Role.OPERATOR] | {"content-type": "application/json"}
    answer = await client.post("/api/v1/overrides", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["where"] == "body.value"
    assert hall.held == {}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'"x"', b"null"])
async def test_a_body_that_is_no_object_is_a_problem(
    client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]], body: bytes
) -> None:
    headers = as_role[Role.OPERATOR] | {"content-type": "application/json"}
    answer = await client.post("/api/v1/overrides", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == MEDIA_TYPE


async def test_modes_follow_the_narrower_scope(api: Caller, hall: MemoryHall) -> None:
    wish = {"mode": "observe", "reason": "new rack"}
    assert await api.ask("PUT", "/modes/rack:r03", 200, wish) == {
        "scope": "rack:r03",
        "mode": "observe",
        "own": True,
    }
    modes = {m["scope"]: (m["mode"], m["own"]) for m in await api.get("/modes")}
    assert modes["rack:r03"] == ("observe", True)
    assert modes["rack:r04"] == ("auto", False)
    assert hall.set_modes["rack:r03"] is Mode.OBSERVE
    assert (await api.ask("PUT", "/modes/rack:nope", 404, wish))["code"] == "not-found"
    assert (await api.ask("PUT", "/modes/hall", 422, wish | {"mode": "on"}))["errors"]
    line = (await api.get("/audit"))[0]
    assert (line["action"], line["subject"], line["detail"]["to"]) == (
        "mode",
        "rack:r03",
        "observe",
    )


async def test_release_says_what_it_moves_before_and_after(api: Caller, hall: MemoryHall) -> None:
    seen = await api.get("/release/hall")
    assert (seen["moves_w"], seen["released"], hall.released) == (48_000.0, False, [])
    done = await api.ask("POST", "/release/hall", 200, {"reason": "fire drill"})
    assert (done["released"], done["audited"]) == (True, True)
    assert hall.released == [("hall", "engineer", "fire drill")]


async def test_release_works_with_the_database_down(
    api: Caller, hall: MemoryHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.get("/facility")
    _break_database(hall, monkeypatch)
    done = await api.ask("POST", "/release/hall", 200, {"reason": "fire drill"})
    assert (done["released"], done["audited"]) == (True, False)
    assert hall.released == [("hall", "engineer", "fire drill")]


async def test_what_is_in_memory_is_answered_with_the_database_down(
    api: Caller, hall: MemoryHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.get("/facility")
    _break_database(hall, monkeypatch)
    for path in ("/facility", "/racks", "/readings", "/headroom", "/decisions/latest", "/modes"):
        await api.get(path)
    for path in ("/alarms", "/decisions", "/audit", f"/points/{POWER}/history"):
        assert "control goes on" in (await api.get(path, 503))["detail"]


def _break_database(hall: MemoryHall, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question and every write fails as when the server is gone."""

    def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    for name in ("audit", "alarms", "decisions", "audit_log", "past", "api_keys"):
        monkeypatch.setattr(hall.store, name, gone)


async def test_alarms_are_listed_acknowledged_and_remembered(api: Caller, hall: MemoryHall) -> None:
    cause = alarm("redundancy_lost:ups-a2", "12 kW too much", severity=Severity.CRITICAL)
    child = alarm("cap_not_holding:r05", "1.1 kW above its caps", parent=cause.key)
    hall.run_cycle([cause, child])
    listed = await api.get("/alarms")
    assert [a["key"] for a in listed] == [cause.key, child.key]
    assert listed[1]["parent"] == cause.key
    assert listed[0]["severity"] == "critical"
    done = await api.ask("POST", f"/alarms/{cause.key}/acknowledge", 200, {"note": "on my way"})
    assert (done["acknowledged_by"], done["note"]) == ("engineer", "on my way")
    changes = await api.get(f"/alarms/history?key={cause.key}")
    assert [c["change"] for c in changes] == ["acknowledged", "raised"]
    unknown = await api.ask("POST", "/alarms/nope/acknowledge", 404, {"note": "on my way"})
    assert unknown["code"] == "not-found"
    hall.clock.turn(1)
    cleared = alarm(cause.key, "gone", hall.clock.ms, active=False)
    hall.run_cycle([cleared])
    assert [a["key"] for a in await api.get("/alarms")] == [child.key]
    assert len(await api.get("/alarms?active=false")) == 2


async def test_webhooks_show_sinks_and_deliveries_but_no_secret(
    api: Caller, hall: MemoryHall
) -> None:
    sinks = await api.get("/webhooks")
    assert sinks == [{"sink": "pager", "url": "http://127.0.0.1:9/hook", "pages_only": False}]
    hall.run_cycle([alarm("leak:r01", "water")])
    (delivery,) = await api.get("/webhooks/deliveries")
    assert (delivery["sink"], delivery["status"], delivery["type"]) == (
        "pager",
        "pending",
        "alarm.raised",
    )
    tested = await api.ask("POST", "/webhooks/pager/test")
    assert (tested["delivered"], tested["http_status"]) == (True, 204)
    assert (await api.ask("POST", "/webhooks/nope/test", 404))["code"] == "not-found"


async def test_health_needs_progress_and_a_database_not_devices(
    client: httpx2.AsyncClient, hall: MemoryHall
) -> None:
    hall.dead.update(layout.device for layout in hall.table.layouts)
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/readyz")).status_code == 200
    hall.cycle_age_s = 30.0
    assert (await client.get("/livez")).status_code == 503
    assert (await client.get("/readyz")).status_code == 200
    hall.database = "connection refused"
    assert (await client.get("/readyz")).status_code == 503


async def test_metrics_are_aggregates_in_base_units(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    hall.dead.add("pdu-r02-b")
    hall.scan()
    hall.run_cycle([alarm("leak:r01", "water")])
    text = (await client.get("/metrics", headers=as_role[Role.VIEWER])).text
    assert 'wattkeeper_rack_power_watts{rack="r01"} 23600.0' in text
    assert 'wattkeeper_rack_power_watts{rack="r02"}' not in text
    assert 'wattkeeper_alarms_active{severity="warning"} 1.0' in text
    assert 'wattkeeper_mode_info{mode="auto",scope="hall"} 1.0' in text
    assert "gpu" not in text.replace("per GPU", "").replace("GPU margin", "")
    assert "NaN" not in text


async def test_a_device_that_misses_its_period_is_named_in_the_metrics(
    client: httpx2.AsyncClient,
    hall: MemoryHall,
    as_role: dict[Role, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case 20: telegraf#12530, one slow agent and nobody says which."""
    slow = DeviceStatus("pdu-a", "p", "e", "slow", 1, overruns=7, look_s=1.4)
    good = DeviceStatus("pdu-b", "p", "e", "good", 1, look_s=0.1)
    monkeypatch.setattr(hall, "devices", lambda: [slow, good])
    text = (await client.get("/metrics", headers=as_role[Role.VIEWER])).text
    assert 'wattkeeper_device_overruns_total{device="pdu-a"} 7.0' in text
    assert 'wattkeeper_device_look_seconds{device="pdu-a"} 1.4' in text
    assert 'device="pdu-b"' not in text


async def test_a_device_that_miscounts_its_answers_is_named_although_it_is_well(
    client: httpx2.AsyncClient,
    hall: MemoryHall,
    as_role: dict[Role, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case 5: pymodbus#2777, counted and named where people look."""
    odd = DeviceStatus("cdu-a", "p", "e", "good", 1, odd={"late answer": 3})
    good = DeviceStatus("cdu-b", "p", "e", "good", 1)
    monkeypatch.setattr(hall, "devices", lambda: [odd, good])
    headers = as_role[Role.VIEWER]
    text = (await client.get("/metrics", headers=headers)).text
    line = 'wattkeeper_device_odd_answers_total{device="cdu-a",what="late answer"} 3.0'
    assert line in text
    assert 'device="cdu-b"' not in text
    told = (await client.get("/api/v1/devices/cdu-a", headers=headers)).json()
    assert told["odd"] == {"late answer": 3}


async def test_a_bug_is_a_problem_without_its_insides(
    api: Caller, hall: MemoryHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("secret insides")

    monkeypatch.setattr(hall, "snapshot", broken)
    with capture_logs() as logged:
        found = await api.get("/racks", 500)
    assert found["code"] == "internal"
    assert [(line["event"], line["path"]) for line in logged] == [
        ("request failed", "/api/v1/racks")
    ]
    assert "insides" not in json.dumps(found)


async def test_methods_and_paths_that_do_not_exist_are_problems(api: Caller) -> None:
    assert (await api.ask("PATCH", "/racks", 405))["code"] == "method-not-allowed"
    assert (await api.get("/nope", 404))["code"] == "not-found"


async def test_the_description_names_units_problems_and_stable_operations(
    client: httpx2.AsyncClient,
) -> None:
    found = (await client.get("/api/v1/openapi.json")).json()
    operations = [
        operation
        for path in found["paths"].values()
        for operation in path.values()
        if "operationId" in operation
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 30
    assert all(operation["summary"] for operation in operations)
    assert "Problem" in found["components"]["schemas"]
    value = found["components"]["schemas"]["OverrideIn"]["properties"]["value"]["description"]
    assert "W per GPU" in value


async def test_a_hall_without_control_refuses_modes(
    as_role: dict[Role, dict[str, str]], client: httpx2.AsyncClient, hall: MemoryHall
) -> None:
    control = hall.facility.control.model_copy(update={"enabled": False})
    hall.facility = hall.facility.model_copy(update={"control": control})
    api = Caller(client, as_role[Role.ENGINEER])
    refused = await api.ask("PUT", "/modes/hall", 409, {"mode": "auto", "reason": "please"})
    assert refused["bounded_by"] == "control.enabled"
