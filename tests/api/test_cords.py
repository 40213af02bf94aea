"""A cord is drilled over the API: what to do is told, what the meters showed is signed and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from api.security import Role
from tests.api.hall import MemoryHall, scan_of

V1 = "/api/v1"
WISH = {"load": "R05", "feed": "a", "minutes": 5, "reason": "as-wired proof"}


class Rack:
    """The demo's meters, one second at a time, with the cords of r05 opened by hand."""

    def __init__(self, hall: MemoryHall) -> None:
        self.hall = hall
        self.open: set[str] = set()

    def run(self, seconds: int, **facts: Any) -> None:
        for _ in range(seconds):
            self.hall.clock.turn(1.0)
            for layout in self.hall.table.layouts:
                scan = scan_of(layout, self.hall.clock.ms, dead=layout.device in self.hall.dead)
                if layout.device.startswith(("pdu-r05-", "ups-")):
                    values = scan.values.copy()
                    values[0] = self.watts(layout.device)
                    scan = replace(scan, values=values)
                self.hall.image.update(scan)
            self.hall.run_cycle(losses={"lost": [], "suspected": [], "because": {}}, **facts)

    def watts(self, device: str) -> float:
        """What a meter of r05 reads, or a UPS, which carries a third of what moves."""
        side = device[4] if device.startswith("ups-") else device[-1]
        moved = 0.0 if not self.open else -1.0 if side in self.open else 1.0
        if device.startswith("ups-"):
            return 40_000.0 + moved * 11_800.0 / 3.0
        return 11_800.0 * (1.0 + moved)


@pytest.fixture
def rack(hall: MemoryHall) -> Rack:
    hall.rack_load_w = 15_000.0  # N+1 holds
    made = Rack(hall)
    made.run(2)
    return made


async def drilled(client: httpx2.AsyncClient, headers: dict[str, str]) -> dict[str, Any]:
    answer = await client.get(f"{V1}/cords/drills", headers=headers)
    assert answer.status_code == 200
    newest: dict[str, Any] = answer.json()[0]
    return newest


async def test_a_cord_that_is_opened_and_closed_is_signed_off(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    viewer, operator = as_role[Role.VIEWER], as_role[Role.OPERATOR]
    begun = await client.post(f"{V1}/cords/drills", json=WISH, headers=operator)
    assert begun.status_code == 201, begun.text
    body = begun.json()
    assert (body["load"], body["feed"], body["parent"]) == ("r05", "a", "row2-a")
    assert body["state"] == "waiting"
    assert "Do not open r05/a yet" in body["text"]
    rack.run(12)
    assert "Open r05/a now" in (await drilled(client, viewer))["text"]
    rack.open.add("a")
    rack.run(13)
    seen = await drilled(client, viewer)
    assert seen["state"] == "open"
    assert "Close it again" in seen["text"]
    assert seen["evidence"]["feed"] == {"before_w": pytest.approx(11_800.0), "now_w": 0.0}
    assert seen["evidence"]["other_feeds"]["now_w"] == pytest.approx(23_600.0)
    rack.open.clear()
    rack.run(2)
    done = await drilled(client, viewer)
    assert (done["state"], done["by"]) == ("signed", "operator")
    assert done["text"] == "r05/a hangs on row2-a: signed off."
    listed = (await client.get(f"{V1}/cords", headers=viewer)).json()
    mine = next(row for row in listed if (row["load"], row["feed"]) == ("r05", "a"))
    assert mine["signed_by"] == "operator"
    assert mine["drill"] == done["id"]
    assert mine["meter"] == "pdu-r05-a"
    left = (await client.get(f"{V1}/cords?unsigned=true", headers=viewer)).json()
    assert len(left) == len(listed) - 1
    actions = [(e.action, e.subject, e.actor) for e in rack.hall.store.audit_log().result()]
    assert actions[:2] == [
        ("cord signed", "r05/a", "operator"),
        ("cord drill", "r05/a", "operator"),
    ]


async def test_the_other_cord_opened_by_mistake_fails_the_drill(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    await client.post(f"{V1}/cords/drills", json=WISH, headers=as_role[Role.OPERATOR])
    rack.run(12)
    rack.open.add("b")
    rack.run(13)
    seen = await drilled(client, as_role[Role.VIEWER])
    assert seen["state"] == "failed"
    assert "r05/b fell instead" in seen["text"]
    listed = (await client.get(f"{V1}/cords", headers=as_role[Role.VIEWER])).json()
    assert all(row["signed"] is None for row in listed)


async def test_what_cannot_be_drilled_is_refused_with_its_reason(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    operator = as_role[Role.OPERATOR]

    async def refused(**changes: Any) -> tuple[int, str]:
        answer = await client.post(f"{V1}/cords/drills", json=WISH | changes, headers=operator)
        return answer.status_code, str(answer.json()["detail"])

    assert await refused(load="r55") == (404, "no rack or load 'r55'; did you mean r05?")
    assert await refused(feed="c") == (404, "r05 has no feed 'c'; it has a, b")
    # The demo meters no cord of its CDUs.
    status, why = await refused(load="cdu-1")
    assert (status, why) == (409, "the meter of cdu-1/a gives no good reading")
    rack.hall.rack_load_w = 60_000.0
    rack.run(1)
    status, why = await refused()
    assert (status, why) == (409, "N+1 does not hold now: see the headroom")
    rack.hall.rack_load_w = 15_000.0
    rack.run(1)
    first = await client.post(f"{V1}/cords/drills", json=WISH, headers=operator)
    assert first.status_code == 201
    assert await refused(load="r06") == (409, "r05/a is being drilled")
    off = await client.delete(f"{V1}/cords/drills/{first.json()['id']}", headers=operator)
    assert off.json()["state"] == "cancelled"
    assert (await client.delete(f"{V1}/cords/drills/x", headers=operator)).status_code == 404


async def test_a_real_loss_interrupts_and_nothing_opened_expires(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    operator, viewer = as_role[Role.OPERATOR], as_role[Role.VIEWER]
    await client.post(f"{V1}/cords/drills", json=WISH, headers=operator)
    rack.hall.run_cycle(losses={"lost": ["pdu-b"], "suspected": [], "because": {}})
    assert (await drilled(client, viewer))["text"] == "r05/a: interrupted, pdu-b is lost."
    rack.run(1)
    await client.post(f"{V1}/cords/drills", json=WISH | {"minutes": 1}, headers=operator)
    rack.run(62)
    assert (await drilled(client, viewer))["state"] == "expired"


async def test_a_restart_keeps_signatures_and_ends_what_ran(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    operator, viewer = as_role[Role.OPERATOR], as_role[Role.VIEWER]
    await rack.hall.cords.restore()
    await client.post(f"{V1}/cords/drills", json=WISH, headers=operator)
    rack.run(12)
    rack.open.add("a")
    rack.run(13)
    rack.open.clear()
    rack.run(2)
    await client.post(f"{V1}/cords/drills", json=WISH | {"load": "r06"}, headers=operator)
    del rack.hall.__dict__["cords"]
    rack.hall.clock.turn(3 * 86_400.0)
    await rack.hall.cords.restore()
    states = [
        (d["load"], d["state"])
        for d in (await client.get(f"{V1}/cords/drills", headers=viewer)).json()
    ]
    assert states == [("r06", "interrupted"), ("r05", "signed")]
    listed = (await client.get(f"{V1}/cords", headers=viewer)).json()
    mine = next(row for row in listed if (row["load"], row["feed"]) == ("r05", "a"))
    assert mine["signed"] is not None
    assert mine["age_days"] == pytest.approx(3.0, abs=0.01)
    other = next(row for row in listed if (row["load"], row["feed"]) == ("r01", "b"))
    # Not signed, and known to be declared so since the first start.
    assert (other["signed"], other["age_days"]) == (None, pytest.approx(3.0, abs=0.01))


async def test_what_meters_leave_unexplained_is_told_per_element(
    client: httpx2.AsyncClient, rack: Rack, as_role: dict[Role, dict[str, str]]
) -> None:
    viewer = as_role[Role.VIEWER]
    elements = (await client.get(f"{V1}/wiring", headers=viewer)).json()["elements"]
    # No CDU cord of the demo has a meter: nothing is claimed, and never 0.
    assert elements["ups-a1"]["residual_w"] is None
    assert elements["ups-a1"]["missing"] == "cdu-1/a"
    assert all(row["residual_w"] is None for row in elements.values())
