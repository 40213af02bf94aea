"""Who may do what: every route of the application is in this table, or the suite fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from api.app import create_app
from api.security import Role
from tests.api.conftest import FAST, add_keys
from tests.api.hall import MemoryHall, demo_hall

PUBLIC = None
V1 = "/api/v1"
POINT = "r01-n1:total:power_cap"

ROLES: dict[tuple[str, str], Role | None] = {
    ("GET", f"{V1}/facility"): Role.VIEWER,
    ("GET", f"{V1}/racks"): Role.VIEWER,
    ("GET", f"{V1}/racks/{{rack}}"): Role.VIEWER,
    ("GET", f"{V1}/loops"): Role.VIEWER,
    ("GET", f"{V1}/devices"): Role.VIEWER,
    ("GET", f"{V1}/devices/{{device}}"): Role.VIEWER,
    ("GET", f"{V1}/points"): Role.VIEWER,
    ("GET", f"{V1}/points/{{ref}}"): Role.VIEWER,
    ("GET", f"{V1}/points/{{ref}}/history"): Role.VIEWER,
    ("GET", f"{V1}/history"): Role.VIEWER,
    ("GET", f"{V1}/readings"): Role.VIEWER,
    ("GET", f"{V1}/readings/{{ref}}"): Role.VIEWER,
    ("GET", f"{V1}/headroom"): Role.VIEWER,
    ("GET", f"{V1}/single-line"): Role.VIEWER,
    ("GET", f"{V1}/headroom/cases"): Role.VIEWER,
    ("GET", f"{V1}/allocation"): Role.VIEWER,
    ("GET", f"{V1}/decisions"): Role.VIEWER,
    ("GET", f"{V1}/decisions/latest"): Role.VIEWER,
    ("GET", f"{V1}/decisions/{{id}}"): Role.VIEWER,
    ("GET", f"{V1}/audit"): Role.VIEWER,
    ("GET", f"{V1}/overrides"): Role.VIEWER,
    ("POST", f"{V1}/overrides"): Role.OPERATOR,
    ("DELETE", f"{V1}/overrides/{{id}}"): Role.OPERATOR,
    ("GET", f"{V1}/modes"): Role.VIEWER,
    ("PUT", f"{V1}/modes/{{scope}}"): Role.ENGINEER,
    ("GET", f"{V1}/release/{{scope}}"): Role.VIEWER,
    ("POST", f"{V1}/release/{{scope}}"): Role.OPERATOR,
    ("GET", f"{V1}/maintenance"): Role.VIEWER,
    ("POST", f"{V1}/maintenance"): Role.OPERATOR,
    ("DELETE", f"{V1}/maintenance/{{id}}"): Role.OPERATOR,
    ("GET", f"{V1}/corrective"): Role.VIEWER,
    ("GET", f"{V1}/drills"): Role.VIEWER,
    ("POST", f"{V1}/drills"): Role.VIEWER,
    ("DELETE", f"{V1}/drills/{{id}}"): Role.OPERATOR,
    ("GET", f"{V1}/wiring"): Role.VIEWER,
    ("GET", f"{V1}/cords"): Role.VIEWER,
    ("GET", f"{V1}/cords/drills"): Role.VIEWER,
    ("POST", f"{V1}/cords/drills"): Role.OPERATOR,
    ("DELETE", f"{V1}/cords/drills/{{id}}"): Role.OPERATOR,
    ("GET", f"{V1}/switching/{{element}}"): Role.VIEWER,
    ("GET", f"{V1}/statements/key"): Role.VIEWER,
    ("GET", f"{V1}/capacity"): Role.VIEWER,
    ("GET", f"{V1}/capacity/racks/{{rack}}"): Role.VIEWER,
    ("GET", f"{V1}/capacity/rows/{{row}}"): Role.VIEWER,
    ("POST", f"{V1}/statements/verify"): Role.VIEWER,
    ("GET", f"{V1}/alarms"): Role.VIEWER,
    ("GET", f"{V1}/alarms/history"): Role.VIEWER,
    ("POST", f"{V1}/alarms/{{key}}/acknowledge"): Role.OPERATOR,
    ("GET", f"{V1}/webhooks"): Role.VIEWER,
    ("GET", f"{V1}/webhooks/deliveries"): Role.VIEWER,
    ("POST", f"{V1}/webhooks/{{sink}}/test"): Role.OPERATOR,
    ("GET", f"{V1}/events"): Role.VIEWER,
    ("GET", "/livez"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/metrics"): Role.VIEWER,
    ("GET", "/"): Role.VIEWER,
    ("GET", "/live"): Role.VIEWER,
    ("GET", "/single-line"): Role.VIEWER,
    ("GET", "/single-line/part"): Role.VIEWER,
    ("GET", "/what-if"): PUBLIC,
    ("GET", "/history"): Role.VIEWER,
    ("GET", "/acknowledge"): Role.OPERATOR,
    ("POST", "/acknowledge"): Role.OPERATOR,
    ("GET", "/override"): Role.OPERATOR,
    ("POST", "/override"): Role.OPERATOR,
    ("GET", "/override/end"): Role.OPERATOR,
    ("POST", "/override/end"): Role.OPERATOR,
    ("GET", "/modes"): Role.ENGINEER,
    ("POST", "/modes"): Role.ENGINEER,
    ("GET", "/release"): Role.OPERATOR,
    ("POST", "/release"): Role.OPERATOR,
    ("GET", "/login"): PUBLIC,
    ("POST", "/login"): PUBLIC,
    ("POST", "/logout"): Role.VIEWER,
}

BODIES: dict[str, Any] = {
    "overrides": {"point": POINT, "value": 450, "minutes": 30, "reason": "drill at noon"},
    "modes": {"mode": "observe", "reason": "drill at noon"},
    "release": {"reason": "drill at noon"},
    "acknowledge": {"note": "on my way"},
    "maintenance": {"device": "pdu-r01-a", "end": "2026-12-20T00:00:00Z", "reason": "new meter"},
    "statements": {},
    "cords": {"load": "r99", "feed": "a", "reason": "as wired"},
    "drills": {"element": "pdu-b"},
}
FILLED = {
    "{rack}": "r01",
    "{device}": "pdu-r01-a",
    "{ref}": POINT,
    "{id}": "1",
    "{scope}": "rack:r01",
    "{element}": "ups-a2",
    "{row}": "row1-a",
    "{key}": "leak:r01",
    "{sink}": "pager",
}
#: What a path cannot do without.
QUERIES = {f"{V1}/history": f"?points={POINT}"}
GUARDED = [(m, p, r) for (m, p), r in ROLES.items() if r is not None]
API = [(m, p, r) for m, p, r in GUARDED if p.startswith("/api/")]
PAGES = [(m, p, r) for m, p, r in GUARDED if not p.startswith("/api/") and p != "/metrics"]
STREAMS = (f"{V1}/events", "/live")


@pytest.fixture(scope="module")
def shared() -> Iterator[MemoryHall]:
    """One hall for the whole table: what one call changes is no other call's business."""
    made = demo_hall()
    yield made
    made.store.close()


@pytest.fixture
def hall(shared: MemoryHall) -> MemoryHall:
    shared.clock.turn(400)  # wrong keys of the call before are forgotten
    return shared


@pytest.fixture(scope="module")
def keys(shared: MemoryHall) -> dict[Role, str]:
    return add_keys(shared)


@pytest.fixture(scope="module")
def application(shared: MemoryHall, keys: dict[Role, str]) -> FastAPI:
    return create_app(shared, hasher=FAST)


@pytest.fixture
def app(application: FastAPI, hall: MemoryHall) -> FastAPI:
    return application


def served(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path that the application answers to, however routers are nested."""
    for route in routes:
        if isinstance(route, APIRoute):
            for method in route.methods - {"HEAD"}:
                yield method, prefix + route.path
        elif hasattr(route, "original_router"):
            inner = prefix + route.include_context.prefix
            yield from served(route.original_router.routes, inner)


def filled(path: str) -> str:
    for name, value in FILLED.items():
        path = path.replace(name, value)
    return path + QUERIES.get(path, "")


async def call(
    client: httpx2.AsyncClient, method: str, path: str, headers: dict[str, str] | None = None
) -> httpx2.Response:
    body = next((b for name, b in BODIES.items() if name in path), None)
    sent = body if method in ("POST", "PUT") else None
    return await client.request(method, filled(path), json=sent, headers=headers)


def test_every_route_has_a_role_and_every_role_a_route(app: FastAPI) -> None:
    assert sorted(served(app.routes)) == sorted(ROLES)


@pytest.mark.parametrize(("method", "path", "role"), GUARDED)
async def test_nobody_is_let_in_without_a_key(
    client: httpx2.AsyncClient, method: str, path: str, role: Role
) -> None:
    answer = await call(client, method, path)
    assert answer.status_code == 401, answer.text
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "no-key"


@pytest.mark.parametrize(("method", "path", "role"), API)
async def test_a_wrong_key_is_401_everywhere(
    client: httpx2.AsyncClient, method: str, path: str, role: Role
) -> None:
    wrong = {"X-API-Key": "wk.viewer." + "x" * 43}
    answer = await call(client, method, path, wrong)
    assert (answer.status_code, answer.json()["code"]) == (401, "wrong-key")


@pytest.mark.parametrize(("method", "path", "role"), API)
async def test_each_role_may_what_its_table_says_and_no_more(
    client: httpx2.AsyncClient,
    as_role: dict[Role, dict[str, str]],
    method: str,
    path: str,
    role: Role,
) -> None:
    for asking in Role:
        if asking >= role and path in STREAMS:
            continue
        answer = await call(client, method, path, as_role[asking])
        if asking < role:
            assert answer.status_code == 403, (asking, answer.text)
            assert answer.json()["needs"] == role.name.lower()
            assert role.name.lower() in answer.json()["detail"]
        else:
            assert answer.status_code in (200, 201, 404), (asking, answer.text)


@pytest.mark.parametrize(("method", "path", "role"), PAGES)
async def test_pages_keep_the_same_roles(
    client: httpx2.AsyncClient, keys: dict[Role, str], method: str, path: str, role: Role
) -> None:
    for asking in Role:
        if asking >= role and path in STREAMS:
            continue
        client.cookies.clear()
        await client.post("/login", data={"key": keys[asking]})
        answer = await client.request(
            method,
            path,
            data={"note": "x"} if method == "POST" else None,
            headers={"accept": "text/html"},
        )
        if asking < role:
            assert answer.status_code == 403, (asking, answer.text)
            assert f"needs the role {role.name.lower()}" in answer.text
        elif method == "POST":
            assert answer.status_code == 403
            assert "token is missing" in answer.text
        else:
            assert answer.status_code in (200, 303, 404), (asking, answer.text)
