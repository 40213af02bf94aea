"""What every page needs: who looks, which form was sent, how an answer is made."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.hall import Hall
from api.problems import CODES, Problem
from api.routes.deps import ApiSettings
from api.security import COOKIE, CSRF_FIELD, Gate, Principal, Role, require_csrf, require_role
from api.web.forms import Form, read_form
from api.web.rendering import Rendering


class Desk:
    """The hall, its gate and its templates, for the pages that share them."""

    def __init__(self, hall: Hall, gate: Gate, settings: ApiSettings) -> None:
        self.hall = hall
        self.gate = gate
        self.settings = settings
        self.rendering = Rendering(hall)

    async def who(self, request: Request, role: Role) -> Principal:
        return require_role(await self.gate.visitor(request.cookies.get(COOKIE, "")), role)

    async def posted(self, request: Request, role: Role) -> tuple[Principal, dict[str, str]]:
        who = await self.who(request, role)
        form = await read_form(request)
        require_csrf(who, form.get(CSRF_FIELD, ""))
        return who, form

    def page(
        self, template: str, who: Principal | None, status: int = 200, **values: Any
    ) -> HTMLResponse:
        return HTMLResponse(self.rendering.html(template, who=who, **values), status)

    def form(self, who: Principal, form: Form) -> HTMLResponse:
        return self.page("form.html", who, 409 if form.wrong else 200, form=form)

    def done(self, request: Request, text: str) -> RedirectResponse:
        self.gate.say(request.cookies.get(COOKIE, ""), text)
        return RedirectResponse("/", 303)

    def problem(self, request: Request, problem: Problem) -> Response:
        """An error as a page; who is not logged in is asked to."""
        if problem.code == "no-key" and request.method == "GET":
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
        status, title = CODES[problem.code]
        page = self.page("problem.html", None, status, title=title, detail=problem.detail)
        page.headers.update(problem.headers)
        return page
