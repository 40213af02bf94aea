"""Capacity questions of the running hall."""

from __future__ import annotations

import httpx2
import pytest

from api.security import Role
from tests.api.hall import MemoryHall
from tests.api.test_routes import Caller


@pytest.fixture
def api(client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]]) -> Caller:
    return Caller(client, as_role[Role.VIEWER])


async def test_one_more_server_is_answered_with_what_binds_and_what_is_not_known(
    api: Caller, hall: MemoryHall
) -> None:
    answer = await api.get("/capacity/racks/r01?watts=500000&units=2")
    assert answer["verdict"] == "no"
    assert answer["wanted_w"] == 500_000.0
    assert answer["binding"]["room_w"] <= answer["room_at_floors_w"]
    assert {row["side"] for row in answer["limits"]} >= {"a", "b"}
    assert {row["case"] == "normal" for row in answer["limits"]} == {True, False}
    assert answer["cooling"][0]["loop"] == "loop-1"
    assert answer["unknown"] == ["space", "weight", "liquid ports"]
    assert "Not stated: space, weight, liquid ports." in answer["text"]


async def test_one_more_rack_in_a_row(api: Caller) -> None:
    answer = await api.get("/capacity/rows/row1-a?watts=10000")
    assert answer["what"] == "one more rack like r04"
    assert answer["unknown"] == ["positions of the row"]
    like = await api.get("/capacity/rows/row1-a?watts=10000&like=r01")
    assert like["room_w"] == answer["room_w"]


async def test_a_rack_of_another_row_is_no_model_for_this_one(api: Caller) -> None:
    """The answer was about the other row's busways, under the name of this row."""
    no = await api.get("/capacity/rows/row1-a?watts=10000&like=r05", 409)
    assert "r05 is not of row1-a" in no["detail"]


async def test_the_report_covers_every_question(api: Caller) -> None:
    found = await api.get("/capacity?rack_w=5000&lot=2&margin=0.1")
    assert found["feeding"] == []
    assert {row["kind"] for row in found["levels"]} == {"source", "ups", "pdu", "busway"}
    assert len(found["sizing"]) == 8
    assert {row["row"] for row in found["lots"]} == {"row1-a", "row2-a"}
    assert found["lot"] == {"rack_w": 5000.0, "racks": 2, "margin": 0.1}
    assert found["conversion"]["target"] == 0.97


async def test_what_is_not_there_is_not_answered(api: Caller, hall: MemoryHall) -> None:
    assert "did you mean" in (await api.get("/capacity/racks/r1", 404))["detail"]
    await api.get("/capacity/rows/row9", 404)
    await api.get("/capacity/racks/r01?watts=nan", 422)
    await api.get("/capacity/racks/r01?watts=-1", 422)
    await api.get("/capacity?lot=0", 422)
    hall.seen = None
    assert "no cycle" in (await api.get("/capacity", 409))["detail"]
