"""The web application of one hall: API, page and static files, behind one set of rules.

`create_app(hall)` takes everything it needs; it starts no task and opens no socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import problems
from api.hall import Hall
from api.routes import ROUTERS, health
from api.routes.deps import ApiSettings, ask
from api.routes.schemas import ProblemOut
from api.security import Gate, KeyRecord
from api.web import STATIC
from api.web.desk import Desk
from api.web.pages import Pages

__all__ = ["ApiSettings", "create_app"]

PREFIX: Final = "/api/v1"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
DESCRIPTION: Final = (
    "Everything an operator can see or do, for machines. Numbers are in the unit their name or "
    "description states; what is unknown is null, never 0. Times are ISO 8601. Errors are RFC 9457 "
    "problem documents with a stable `code`. Roles: viewer reads; operator also acknowledges, "
    "overrides, releases and tests webhooks; engineer also sets modes."
)


#: Addresses that take larger bodies than others: a statement lists every load of its hall.
LARGE_BODIES: Final = {"/api/v1/statements/verify": 4 * 1024 * 1024}


class Shield:
    """Refuses foreign hosts and giant bodies, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], max_body: int) -> None:
        self._app = app
        self._max_body = max_body
        self._hosts = frozenset(host.lower() for host in hosts)

    def _served(self, request: Request) -> bool:
        host = request.headers.get("host", "").lower()
        name = (
            host[: host.index("]") + 1]
            if host.startswith("[") and "]" in host
            else (host.partition(":")[0])
        )
        return "*" in self._hosts or name in self._hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        taken, most = 0, self._most(scope["path"])

        async def receive_at_most() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise HTTPException(413, f"a body has at most {most} bytes")
            return message

        request = Request(scope)
        refusal = self._refusal(request)
        if refusal is None:
            await self._app(scope, receive_at_most, send_with_headers)
            return
        await problems.answer(request, refusal)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> problems.Problem | None:
        if not self._served(request):
            return problems.Problem("wrong-host", "this service does not answer to that host name")
        if request.method not in SAFE and request.headers.get("sec-fetch-site") == "cross-site":
            return problems.Problem("cross-site", "a page of another site sent this")
        length, most = request.headers.get("content-length", "0"), self._most(request.url.path)
        if not length.isascii() or not length.isdigit() or int(length) > most:
            return problems.Problem("too-large", f"a body has at most {most} bytes")
        return None

    def _most(self, path: str) -> int:
        return max(self._max_body, LARGE_BODIES.get(path, 0))


def create_app(
    hall: Hall, settings: ApiSettings | None = None, hasher: PasswordHasher | None = None
) -> FastAPI:
    """The application of a hall.

    Args:
        hall: the running service; keys are read from its store.
        settings: host names, link and cookie; loopback by default.
        hasher: how keys were hashed; argon2id with the library's strength by default.
    """
    settings = settings or ApiSettings()

    async def keys() -> Sequence[KeyRecord]:
        return await ask(hall.store.api_keys())

    app = FastAPI(
        title="Wattkeeper",
        version=version("wattkeeper"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.hall = hall
    app.state.settings = settings
    app.state.gate = Gate(keys, hall.clock, hasher)
    desk = Desk(hall, app.state.gate, settings)
    problems.install(app, desk.problem)
    app.add_middleware(Shield, hosts=settings.hosts, max_body=settings.max_body)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(health.router)
    app.include_router(Pages(desk).router())
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Make the API description name our problem documents instead of FastAPI's own shape."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            shape = ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= shape.pop("$defs", {})
            schemas["Problem"] = shape
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
