"""Keys, sessions, wrong-key limits, host names, bodies and headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI

from api.app import HEADERS, ApiSettings, create_app
from api.security import COOKIE, FAILURES_MAX, Gate, Role, issue_key
from facility.store.errors import StoreUnavailable
from tests.api.conftest import FAST
from tests.api.hall import MemoryHall, SetClock

FACILITY = "/api/v1/facility"


class CountingHasher(PasswordHasher):
    """The real hasher, which also says how often it was asked."""

    asked = 0

    def verify(self, hash: Any, password: Any) -> bool:  # noqa: A002
        self.asked += 1
        return bool(super().verify(hash, password))


class Key:
    """A key as the store keeps it."""

    def __init__(self, name: str, role: str, digest: str, revoked_ms: int | None = None) -> None:
        self.name, self.role, self.hash, self.revoked_ms = name, role, digest, revoked_ms


async def test_argon2_is_paid_once_per_key() -> None:
    key, digest = issue_key("anna", FAST)
    hasher = CountingHasher(time_cost=1, memory_cost=8, parallelism=1)

    async def keys() -> list[Key]:
        return [Key("anna", "operator", digest)]

    gate = Gate(keys, SetClock(), hasher)
    for _ in range(5):
        assert (await gate.principal(key, "10.0.0.1")).role is Role.OPERATOR
    assert hasher.asked == 1


async def test_a_revoked_key_ends_with_its_sessions() -> None:
    clock = SetClock()
    key, digest = issue_key("anna", FAST)
    stored = [Key("anna", "operator", digest)]

    async def keys() -> list[Key]:
        return stored

    gate = Gate(keys, clock, FAST)
    token, _ = await gate.log_in(key, "10.0.0.1")
    assert await gate.visitor(token) is not None
    stored[:] = [Key("anna", "operator", digest, revoked_ms=1)]
    clock.turn(60)
    assert await gate.visitor(token) is None
    with pytest.raises(Exception, match="no key like this"):
        await gate.principal(key, "10.0.0.1")


async def test_keys_stay_valid_while_the_database_is_down() -> None:
    clock = SetClock()
    key, digest = issue_key("anna", FAST)
    up = True

    async def keys() -> list[Key]:
        if not up:
            raise StoreUnavailable("gone")
        return [Key("anna", "viewer", digest)]

    gate = Gate(keys, clock, FAST)
    await gate.principal(key, "10.0.0.1")
    up = False
    clock.turn(3600)
    assert (await gate.principal(key, "10.0.0.1")).name == "anna"


async def test_a_session_ends_after_twelve_hours_and_on_log_out() -> None:
    clock = SetClock()
    key, digest = issue_key("anna", FAST)

    async def keys() -> list[Key]:
        return [Key("anna", "viewer", digest)]

    gate = Gate(keys, clock, FAST)
    first, _ = await gate.log_in(key, "a")
    second, _ = await gate.log_in(key, "a")
    gate.log_out(first)
    assert await gate.visitor(first) is None
    assert await gate.visitor(second) is not None
    clock.turn(12 * 3600)
    assert await gate.visitor(second) is None


async def test_wrong_keys_are_limited_per_address_and_the_limit_passes(
    client: httpx2.AsyncClient, hall: MemoryHall, as_role: dict[Role, dict[str, str]]
) -> None:
    good = as_role[Role.VIEWER]
    assert (await client.get(FACILITY, headers=good)).status_code == 200
    wrong = {"X-API-Key": "wk.viewer." + "x" * 43}
    for _ in range(FAILURES_MAX):
        assert (await client.get(FACILITY, headers=wrong)).status_code == 401
    refused = await client.get(FACILITY, headers=wrong)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    login = await client.post("/login", data={"key": "wk.viewer." + "y" * 43})
    assert login.status_code == 429
    assert (await client.get(FACILITY, headers=good)).status_code == 200
    hall.clock.turn(301)
    assert (await client.get(FACILITY, headers=wrong)).status_code == 401


@pytest.mark.parametrize(
    "key", ["", " ", "wk.viewer", "x" * 10_000, "wk.nobody." + "x" * 43, "wk.viewer.\u00e9"]
)
async def test_odd_keys_are_wrong_keys(client: httpx2.AsyncClient, key: str) -> None:
    answer = await client.get(FACILITY, headers={"X-API-Key": key.encode()})
    assert answer.status_code == 401


@pytest.mark.parametrize("name", ["", "Anna", "a b", "-a", "a.b"])
def test_a_key_name_that_cannot_stand_in_a_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        issue_key(name, FAST)


async def test_a_session_may_read_the_api_but_changes_need_its_token(
    client: httpx2.AsyncClient, keys: dict[Role, str], hall: MemoryHall
) -> None:
    answer = await client.post("/login", data={"key": keys[Role.OPERATOR]})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await client.get(FACILITY)).status_code == 200
    wish = {"point": "r01-n1:total:power_cap", "value": 450, "minutes": 30, "reason": "drill"}
    refused = await client.post("/api/v1/overrides", json=wish)
    assert (refused.status_code, refused.json()["code"]) == (403, "no-csrf-token")
    assert hall.held == {}
    page = (await client.get("/override")).text
    token = page.split('name="csrf" value="')[1].split('"')[0]
    granted = await client.post("/api/v1/overrides", json=wish, headers={"x-csrf-token": token})
    assert granted.status_code == 201


async def test_the_cookie_is_secure_behind_tls(hall: MemoryHall, keys: dict[Role, str]) -> None:
    app = create_app(hall, ApiSettings(hosts=("*",), secure_cookie=True))
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="https://hall.example") as client:
        answer = await client.post("/login", data={"key": keys[Role.VIEWER]})
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("[::2]", 421),
    ],
)
async def test_only_our_host_names_are_served(
    client: httpx2.AsyncClient, host: str, status: int
) -> None:
    answer = await client.get("/readyz", headers={"host": host})
    assert answer.status_code == status
    if status == 421:
        assert answer.json()["code"] == "wrong-host"


@pytest.mark.parametrize("path", ["/login", "/readyz", "/nope", "/static/page.css", FACILITY])
async def test_security_headers_are_on_every_answer(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    if not path.startswith("/static/"):
        assert answer.headers["cache-control"] == "no-store"


async def test_a_form_of_another_site_is_refused_before_anything_else(
    client: httpx2.AsyncClient, keys: dict[Role, str]
) -> None:
    for site, status in (("cross-site", 403), ("same-origin", 303)):
        headers = {"sec-fetch-site": site}
        answer = await client.post("/login", data={"key": keys[Role.VIEWER]}, headers=headers)
        assert answer.status_code == status


async def test_a_body_too_large_is_refused(
    client: httpx2.AsyncClient, as_role: dict[Role, dict[str, str]], app: FastAPI
) -> None:
    body = b'{"reason": "' + b"x" * 200_000 + b'"}'
    headers = as_role[Role.OPERATOR] | {"content-type": "application/json"}

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    for content in (body, in_pieces()):
        answer = await client.post("/api/v1/release/hall", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert answer.headers["x-frame-options"] == "DENY"


async def test_the_key_is_never_in_an_answer_or_a_page(
    client: httpx2.AsyncClient, keys: dict[Role, str], as_role: dict[Role, dict[str, str]]
) -> None:
    await client.post("/login", data={"key": keys[Role.ENGINEER]})
    for path in ("/", "/modes", FACILITY, "/api/v1/audit", "/api/v1/webhooks"):
        text = (await client.get(path)).text
        assert all(key not in text for key in keys.values())
        assert client.cookies[COOKIE] not in text
