"""A hall, its application, one key per role, and a client that speaks ASGI without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI

from api.app import create_app
from api.security import Role, issue_key
from tests.api.hall import MemoryHall, demo_hall

#: Weak on purpose: the strength of argon2 is not what these tests are about, its use is.
FAST = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture
def hall() -> Iterator[MemoryHall]:
    made = demo_hall()
    yield made
    made.store.close()


def add_keys(hall: MemoryHall) -> dict[Role, str]:
    """One key per role, named after it."""
    found = {}
    for role in Role:
        name = role.name.lower()
        found[role], digest = issue_key(name, FAST)
        hall.store.add_api_key(name, name, digest).result()
    return found


@pytest.fixture
def keys(hall: MemoryHall) -> dict[Role, str]:
    return add_keys(hall)


@pytest.fixture
def app(hall: MemoryHall, keys: dict[Role, str]) -> FastAPI:
    return create_app(hall, hasher=FAST)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture
def as_role(keys: dict[Role, str]) -> dict[Role, dict[str, str]]:
    return {role: {"Authorization": f"Bearer {key}"} for role, key in keys.items()}
