"""What is out of service stands on top of the page: who, until when, and may it be opened."""

from __future__ import annotations

import httpx2

from api.security import Role
from api.web.works import banner
from facility.maintenance import Maintenance
from tests.api.hall import START_MS, MemoryHall
from tests.api.test_page import HOSTILE, Browser, Elements, text_of

HOUR_MS = 3_600_000


def work(hall: MemoryHall, **more: object) -> Maintenance:
    base: dict[str, object] = {
        "id": "m1",
        "kind": "element",
        "subject": "ups-a2",
        "by": "kim",
        "reason": "battery test.",
        "ticket": "CHG-7",
        "since_ms": START_MS,
        "until_ms": START_MS + 2 * HOUR_MS,
    }
    made = Maintenance(**{**base, **more})  # type: ignore[arg-type]
    hall.store.add_maintenance(made).result()
    return made


async def test_the_banner_says_who_until_when_and_whether_it_may_be_opened(
    hall: MemoryHall,
) -> None:
    made = work(hall)
    await hall.upkeep.restore()
    for secured, says in ((None, ""), (True, "N+1 holds"), (False, "do not open it")):
        hall.run_cycle(maintenance=[made.to_json() | {"state": "open", "secured": secured}])
        rows = banner(hall)
        assert [row["state"] for row in rows] == ["open"]
        assert rows[0]["text"].startswith("UPS-A2 is in maintenance until ")
        assert "(kim, CHG-7: battery test)." in rows[0]["text"]
        assert says in rows[0]["text"]


async def test_what_is_soon_is_announced_and_what_is_far_or_over_is_not(hall: MemoryHall) -> None:
    day = 24 * HOUR_MS
    work(hall, id="soon", since_ms=START_MS + HOUR_MS)
    work(hall, id="far", since_ms=START_MS + 2 * day, until_ms=START_MS + 3 * day)
    await hall.upkeep.restore()
    assert [row["text"][:32] for row in banner(hall)] == ["UPS-A2 goes out of service at 20"]
    hall.clock.turn(7.0 * 3600.0)
    assert banner(hall) == []


async def test_it_stands_on_the_page_and_a_hostile_reason_stays_text(
    client: httpx2.AsyncClient, hall: MemoryHall, keys: dict[Role, str]
) -> None:
    work(hall, reason=HOSTILE)
    await hall.upkeep.restore()
    browser = Browser(client, keys[Role.VIEWER])
    await browser.log_in()
    page = (await client.get("/", headers={"accept": "text/html"})).text
    assert "UPS-A2 is in maintenance until" in text_of(page)
    assert HOSTILE not in page
    assert not Elements(page).inline
