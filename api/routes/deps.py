"""What every route takes: the hall, the caller with the role needed, and answers of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, cast

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from api.hall import Hall
from api.problems import CODES, MEDIA_TYPE
from api.security import Gate, Principal, Role, require_role

T = TypeVar("T")

STORE_WAIT_S: Final = 5.0

_bearer = HTTPBearer(auto_error=False, description="`Authorization: Bearer wk.NAME.SECRET`")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="the same key")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """What may differ between a site and a demo.

    Attributes:
        hosts: host names that the service answers to; "*" for all.
        link: address of the page as people reach it, for alarms sent elsewhere.
        secure_cookie: whether the session cookie is only sent over TLS (behind a proxy: yes).
        max_body: bytes of a request body at most.
    """

    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    link: str = "http://127.0.0.1:8080"
    secure_cookie: bool = False
    max_body: int = 64 * 1024


def hall_of(request: Request) -> Hall:
    return cast(Hall, request.app.state.hall)


def gate_of(request: Request) -> Gate:
    return cast(Gate, request.app.state.gate)


def settings_of(request: Request) -> ApiSettings:
    return cast(ApiSettings, request.app.state.settings)


def needs(role: Role) -> Callable[..., Awaitable[Principal]]:
    """A dependency that lets only `role` and higher pass."""

    async def check(
        request: Request,
        _key: Annotated[Any, Security(_bearer)] = None,
        _header_key: Annotated[Any, Security(_header)] = None,
    ) -> Principal:
        return require_role(await gate_of(request).who(request), role)

    return check


HallDep = Annotated[Hall, Depends(hall_of)]
Viewer = Annotated[Principal, Depends(needs(Role.VIEWER))]
Operator = Annotated[Principal, Depends(needs(Role.OPERATOR))]
Engineer = Annotated[Principal, Depends(needs(Role.ENGINEER))]


async def ask(answer: Future[T], wait_s: float = STORE_WAIT_S) -> T:
    """What the store answers.

    Raises:
        TimeoutError: it did not answer in time; the caller sees 503, control goes on.
    """
    async with asyncio.timeout(wait_s):
        return await asyncio.wrap_future(answer)


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries of the error answers a route can give, besides 401, 403 and 422."""
    return {
        CODES[code][0]: {
            "description": CODES[code][1],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for code in ("no-key", "missing-role", "invalid", *codes)
    }
