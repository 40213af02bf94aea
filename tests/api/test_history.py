"""The past over the API: resolutions, aggregates, pages, and the two questions of issue and audit.

"What happened at 03:12 last month" and "tokens per watt per day, all year" are one request each.
"""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx2
import pytest

from api.security import Role
from api.service.point_rules import rules_of
from facility.points import Layout, PointId, PointSpec
from tests.api.hall import START_MS, MemoryHall, scan_of

V1 = "/api/v1"
PDU = "pdu-r01-a"
POWER = f"{PDU}:total:active_power"
ENERGY = f"{PDU}:total:energy"
TOKENS = "r01-n1:total:tokens_generated"
HOUR_MS = 3_600_000


class Asking:
    """Asks as a viewer."""

    def __init__(self, client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
        self._client = client
        self._headers = headers

    async def json(self, path: str, status: int = 200) -> Any:
        answer = await self._client.get(V1 + path, headers=self._headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def csv(self, path: str) -> list[list[str]]:
        answer = await self._client.get(V1 + path, headers=self._headers | {"accept": "text/csv"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/csv")
        return list(csv.reader(io.StringIO(answer.text)))


@pytest.fixture
def api(client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]) -> Asking:
    return Asking(client, as_role[Role.VIEWER])


def store_scan(hall: MemoryHall, device: str, at_ms: int, **values: float) -> None:
    """One look at a device at some time of the past; what is not given is as ever."""
    layout = next(one for one in hall.table.layouts if one.device == device)
    scan = scan_of(layout, at_ms)
    for i, spec in enumerate(layout.points):
        scan.values[i] = values.get(spec.id.kind, scan.values[i])
    hall.store.put(scan)


def minutes(hall: MemoryHall, first_ms: int, count: int) -> None:
    for i in range(count):
        at_ms = first_ms + 60_000 * i
        store_scan(hall, PDU, at_ms, active_power=100.0 * i, energy=4.2e6 + 2.0 * i)
    hall.store.flush().result()


def compact(hall: MemoryHall) -> None:
    hall.store.compact(settle_ms=0).result()


async def test_an_answer_says_what_it_was_made_from(api: Asking, hall: MemoryHall) -> None:
    minutes(hall, START_MS - 2 * HOUR_MS, 120)
    compact(hall)
    query = "from=2026-11-30T13:00:00Z&to=2026-11-30T15:00:00Z"
    raw = await api.json(f"/points/{POWER}/history?{query}")
    assert (raw["resolution"], raw["step_s"], len(raw["samples"])) == ("raw", None, 120)
    assert set(raw["samples"][0]) == {"at", "mean", "min", "max", "good_fraction"}
    quarters = await api.json(f"/points/{ENERGY}/history?{query}&step=15m")
    assert (quarters["resolution"], quarters["step_s"]) == ("15m", 900.0)
    assert [s["delta"] for s in quarters["samples"]] == [28.0, *[30.0] * 7]
    assert quarters["from"] == "2026-11-30T13:00:00.000Z"
    hours = await api.json(f"/points/{POWER}/history?{query}&step=1h&aggregate=max&aggregate=count")
    assert hours["samples"] == [
        {"at": "2026-11-30T13:00:00.000Z", "max": 5900.0, "count": 60.0, "good_fraction": 1.0},
        {"at": "2026-11-30T14:00:00.000Z", "max": 11900.0, "count": 60.0, "good_fraction": 1.0},
    ]
    days = await api.json(f"/points/{POWER}/history?{query}&step=1d")
    assert (days["resolution"], days["step_s"], len(days["samples"])) == ("1d", 86400.0, 1)


async def test_pages_of_json_together_are_what_csv_gives_in_one_piece(
    api: Asking, hall: MemoryHall
) -> None:
    minutes(hall, START_MS - 2 * HOUR_MS, 120)
    for step in ("", "&step=300", "&step=900"):
        query = f"from=2026-11-30T13:00:00Z&to=2026-11-30T15:00:00Z{step}&limit=7"
        paged: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            part = f"&cursor={cursor}" if cursor else ""
            page = await api.json(f"/points/{POWER}/history?{query}{part}")
            assert len(page["samples"]) <= 7
            paged += page["samples"]
            cursor = page["next"]
        rows = await api.csv(f"/points/{POWER}/history?{query}")
        assert rows[0][:2] == ["at", "mean (W)"]
        assert [row[:2] for row in rows[1:]] == [[s["at"], str(s["mean"])] for s in paged]
        assert len(paged) == {"": 120, "&step=300": 24, "&step=900": 8}[step]


async def test_csv_said_inf_where_json_says_unknown(api: Asking, hall: MemoryHall) -> None:
    store_scan(hall, PDU, START_MS - 60_000, active_power=float("inf"))
    hall.store.flush().result()
    query = f"/points/{POWER}/history?from=2026-11-30T14:00:00Z&to=2026-11-30T15:00:00Z"
    assert (await api.json(query))["samples"][0]["mean"] is None
    assert (await api.csv(query))[1][1:4] == ["", "", ""]


async def test_the_years_at_both_ends_of_what_may_be_asked_are_answered(api: Asking) -> None:
    for step in ("1d", "31622400"):
        for span in ("1970-01-01T00:00:00Z&to=1970-01-03", "2199-12-30T00:00:00Z&to=2200-01-01"):
            found = await api.json(f"/points/{POWER}/history?from={span}T00:00:00Z&step={step}")
            assert found["samples"]


async def test_several_points_come_side_by_side(api: Asking, hall: MemoryHall) -> None:
    minutes(hall, START_MS - HOUR_MS, 30)
    span = "from=2026-11-30T14:00:00Z&to=2026-11-30T15:00:00Z"
    query = f"points={POWER},{ENERGY}&points={TOKENS}&step=900&{span}"
    found = await api.json(f"/history?{query}&aggregate=mean&aggregate=delta")
    assert [s["point"] for s in found["series"]] == [POWER, ENERGY, TOKENS]
    assert [s["unit"] for s in found["series"]] == ["W", "Wh", "tok"]
    power, energy, tokens = found["series"]
    assert power["mean"] == [700.0, 2200.0, None, None]
    assert power["delta"] == [None] * 4
    assert energy["delta"] == [28.0, 30.0, None, None]
    assert tokens["mean"] == [None] * 4
    assert power["at"] == tokens["at"]
    rows = await api.csv(f"/history?{query}&aggregate=mean")
    assert rows[0] == [
        "at",
        f"{POWER} mean (W)",
        f"{POWER} good_fraction",
        f"{ENERGY} mean (Wh)",
        f"{ENERGY} good_fraction",
        f"{TOKENS} mean (tok)",
        f"{TOKENS} good_fraction",
        "resolution",
    ]
    assert rows[3][1:] == ["", "", "", "", "", "", "15m"]
    raw = await api.csv(
        f"/history?points={POWER},{TOKENS}&from=2026-11-30T14:28:00Z&to=2026-11-30T15:00:00Z"
    )
    assert raw[0] == ["at", "point", "value", "unit", "quality"]
    assert [row[1:] for row in raw[1:]] == [
        [POWER, "2800.0", "W", "good"],
        [POWER, "2900.0", "W", "good"],
    ]


async def test_a_device_that_left_the_file_keeps_its_past(api: Asking, hall: MemoryHall) -> None:
    gone = PointId("pdu-old", "total", "active_power")
    layout = Layout("pdu-old", "fast", (PointSpec(gone, 0.0, 1e6),))
    hall.store.put(scan_of(layout, START_MS - 60_000))
    found = await api.json(f"/points/{gone}/history")
    assert [s["mean"] for s in found["samples"]] == [11_800.0]
    assert (await api.json(f"/history?points={gone}"))["series"][0]["mean"] == [11_800.0]
    await api.json("/points/pdu-never:total:active_power/history", 404)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("step=1w", "query.step"),
        ("step=0", "query.step"),
        ("step=999999999", "query.step"),
        ("aggregate=median", "query.aggregate.0"),
        ("resolution=1h", "query.resolution"),
        ("limit=0", "query.limit"),
        ("limit=10001", "query.limit"),
        ("cursor=x", "query.cursor"),
        ("cursor=1-raw-0", "query.cursor"),
        ("cursor=1796050000000-raw-999999999", "query.cursor"),
        ("cursor=%D9%A1796050000000-raw-0", "query.cursor"),
        ("step=%D9%A1", "query.step"),
        ("from=2026-11-30T16:00:00Z&to=2026-11-30T15:00:00Z", "query.from"),
        # These were answered with 500, or with a CSV that ended before it began.
        ("from=0001-01-01T00:00:00%2B23:59", "query.from"),
        ("from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00Z&step=1d", "query.from"),
        ("from=9999-12-31T23:00:00Z&to=9999-12-31T23:59:59.999999-23:59", "query.from"),
        ("from=2026-11-30T15:00:00Z&to=9999-12-31T23:59:59Z&step=1d", "query.to"),
    ],
)
async def test_nonsense_is_refused_and_named(api: Asking, query: str, where: str) -> None:
    for path in (f"/points/{POWER}/history?", f"/history?points={POWER}&"):
        found = await api.json(path + query, 422)
        assert [error["where"] for error in found["errors"]] == [where], path


async def test_too_much_is_refused_with_what_to_do(api: Asking, hall: MemoryHall) -> None:
    names = ",".join(str(spec.id) for spec in hall.table.specs[:60])
    year = "from=2025-11-30T00:00:00Z&to=2026-11-30T00:00:00Z"
    found = await api.json(f"/history?points={names}&{year}&step=900", 422)
    assert found["code"] == "too-much"
    assert "widen the step" in found["detail"]
    found = await api.json(f"/history?points={names}&{year}&format=csv", 422)
    assert "at most 60 points times days" in found["detail"]
    many = ",".join(f"pdu-r01-a:outlet.{i}:current" for i in range(501))
    assert (await api.json(f"/history?points={many}", 422))["errors"][0]["where"] == "query.points"
    assert (await api.json("/history", 422))["code"] == "invalid"
    assert (await api.json("/history?points=x:total:energy", 404))["code"] == "not-found"


def live_a_year(hall: MemoryHall) -> None:
    """A node and its meter, a reading a day: 250 tok/s, and 1.0 to 1.6 kW by the day of the week.

    At 03:12 on 17 October the feed was dead for a minute. All but 30 days of samples are gone.
    """
    hall.store.rules = rules_of(hall.facility)
    hall.clock.ms = START_MS
    wh = tokens = 0.0
    for day in range(365):
        at_ms = START_MS - 24 * HOUR_MS * (365 - day)
        store_scan(hall, PDU, at_ms, active_power=1000.0, energy=wh)
        store_scan(hall, "r01-n1", at_ms, tokens_generated=tokens)
        wh += 24.0 * (1000.0 + 100.0 * (day % 7))
        tokens += 250.0 * 24.0 * 3600.0
    for second in range(0, 1800, 60):
        at_ms = 1_792_206_000_000 + 1000 * second  # 2026-10-17T03:00Z
        dead = 720 <= second < 780
        store_scan(hall, PDU, at_ms, active_power=0.0 if dead else 1500.0, energy=float("nan"))
    hall.store.flush().result()
    hall.store.compact(settle_ms=0).result()
    assert hall.store.settle_days().result() > 360
    assert hall.store.retire().result().chunks > 600


async def test_a_years_accounts_and_one_minute_of_last_month_are_one_request_each(
    api: Asking, hall: MemoryHall
) -> None:
    live_a_year(hall)
    # Tokens per watt per day, all year: days of the site.
    rows = await api.csv(
        f"/history?points={TOKENS},{ENERGY}&step=1d&aggregate=delta"
        "&from=2025-12-02T00:00:00%2B01:00&to=2026-11-30T00:00:00%2B01:00"
    )
    assert rows[0] == [
        "at",
        f"{TOKENS} delta (tok)",
        f"{TOKENS} good_fraction",
        f"{ENERGY} delta (Wh)",
        f"{ENERGY} good_fraction",
        "resolution",
    ]
    body = rows[1:]
    assert len(body) == 363
    assert (body[0][0], body[200][0]) == ("2025-12-01T23:00:00.000Z", "2026-06-19T22:00:00.000Z")
    assert {row[-1] for row in body} == {"1d"}
    per_wh = [float(row[1]) / float(row[3]) for row in body]
    due = [250.0 * 3600.0 / (1000.0 + 100.0 * (day % 7)) for day in range(1, 364)]
    assert per_wh == pytest.approx(due)
    # What happened at 03:12 on 17 October: the samples are gone, the quarter's minimum tells.
    query = "from=2026-10-17T03:00:00Z&to=2026-10-17T03:30:00Z"
    found = await api.json(f"/points/{POWER}/history?{query}")
    assert (found["resolution"], found["step_s"]) == ("15m", 900.0)
    first, second = found["samples"]
    assert (first["min"], first["max"]) == (0.0, 1500.0)
    assert first["mean"] == pytest.approx(1500.0 * 14 / 15)
    assert (second["min"], second["max"]) == (1500.0, 1500.0)
    gone = await api.json(f"/points/{POWER}/history?{query}&resolution=raw")
    assert gone["samples"] == []


async def test_what_happened_at_03_12_last_night_is_in_the_samples(
    api: Asking, hall: MemoryHall
) -> None:
    minutes(hall, START_MS - 13 * HOUR_MS, 180)
    compact(hall)
    found = await api.json(
        f"/points/{POWER}/history?from=2026-11-30T03:11:00Z&to=2026-11-30T03:14:00Z"
    )
    assert (found["resolution"], [s["mean"] for s in found["samples"]]) == (
        "raw",
        [7100.0, 7200.0, 7300.0],
    )


def test_the_demo_hall_has_these_points(hall: MemoryHall) -> None:
    for name in (POWER, ENERGY, TOKENS):
        assert PointId.parse(name) in hall.table.index
