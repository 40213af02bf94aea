"""Every error answer: one shape (RFC 9457 `application/problem+json`), one table of codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from api.hall import Refused, Unknown
from api.upkeep import NotAccepted
from facility.store.errors import HistoryLimit, StoreError, UnknownRecord

MEDIA_TYPE: Final = "application/problem+json"

#: code -> (HTTP status, title). Codes are stable; titles and details may change.
CODES: Final[dict[str, tuple[int, str]]] = {
    "bad-request": (400, "The request cannot be read"),
    "no-key": (401, "An API key is needed"),
    "wrong-key": (401, "This API key is not known"),
    "missing-role": (403, "This API key may not do that"),
    "no-csrf-token": (403, "The form is out of date"),
    "cross-site": (403, "Another site may not do that"),
    "not-found": (404, "There is no such thing here"),
    "method-not-allowed": (405, "This path does not take that method"),
    "refused": (409, "This cannot be granted now"),
    "not-accepted": (409, "This has consequences that somebody must accept"),
    "too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "This body has the wrong media type"),
    "wrong-host": (421, "This host name is not served here"),
    "invalid": (422, "Some values are not valid"),
    "too-much": (422, "The answer would be too long"),
    "too-many-attempts": (429, "Too many wrong keys"),
    "internal": (500, "Something is broken here"),
    "unavailable": (503, "This cannot be answered now"),
}

_BY_STATUS: Final = {
    400: "bad-request",
    401: "no-key",
    403: "missing-role",
    404: "not-found",
    405: "method-not-allowed",
    409: "refused",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-attempts",
    503: "unavailable",
}

_log = structlog.get_logger("api")


class Problem(Exception):
    """An error answer that a route gives on purpose.

    Attributes:
        code: key of `CODES`.
        detail: a sentence for the caller, with the numbers.
        more: extra members of the answer.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CODES[self.code][0]


def answer(request: Request, problem: Problem) -> JSONResponse:
    """The problem as a response."""
    status, title = CODES[problem.code]
    body: dict[str, Any] = {
        "type": f"/problems/{problem.code}",
        "title": title,
        "status": status,
        "code": problem.code,
        "detail": problem.detail,
        "instance": request.url.path,
        **problem.more,
    }
    return JSONResponse(body, status, headers=problem.headers, media_type=MEDIA_TYPE)


def _validation(errors: Sequence[Mapping[str, Any]]) -> Problem:
    found = [
        {"where": ".".join(str(part) for part in error["loc"]), "problem": str(error["msg"])}
        for error in errors
    ]
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Problem("invalid", f"{first['where']}: {first['problem']}{more}", errors=found)


def as_problem(error: Exception) -> Problem:
    """What to tell the caller about an exception."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _validation(error.errors())
        case Unknown():
            return Problem("not-found", str(error))
        case Refused():
            return Problem("refused", error.reason, bounded_by=error.bounded_by)
        case NotAccepted():
            return Problem(
                "not-accepted",
                error.text,
                consequences=error.consequences,
                accept=error.missing,
            )
        case UnknownRecord():
            return Problem("not-found", str(error))
        case HistoryLimit():
            return Problem("too-much", str(error))
        case StoreError() | TimeoutError():
            return Problem(
                "unavailable", "the database does not answer; control goes on without it"
            )
        case HTTPException():
            code = _BY_STATUS.get(error.status_code, "bad-request")
            return Problem(code, str(error.detail), headers=error.headers)
        case _:
            return Problem("internal", "the fault is in the service's log")


def install(app: FastAPI, page: Callable[[Request, Problem], Response]) -> None:
    """Answer every error of `app` with a problem document, or to a browser with a page."""

    def reply(request: Request, error: Exception) -> Response:
        problem = as_problem(error)
        browser = "text/html" in request.headers.get("accept", "")
        if browser and not request.url.path.startswith("/api/"):
            return page(request, problem)
        return answer(request, problem)

    async def handle(request: Request, error: Exception) -> Response:
        return reply(request, error)

    async def broken(request: Request, error: Exception) -> Response:
        _log.error("request failed", path=request.url.path, exc_info=error)
        return reply(request, error)

    wishes = (Unknown, Refused, NotAccepted)
    known = (Problem, RequestValidationError, StoreError, TimeoutError)
    for kind in (*wishes, *known, HTTPException):
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(Exception, broken)
