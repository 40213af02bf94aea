"""The pages to look at: the overview, its live stream, a point's history, and logging in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import RedirectResponse, Response

from api.picture import iso, number
from api.problems import Problem
from api.routes.deps import ask, needs
from api.routes.events import STREAM_S, room
from api.routes.points import known
from api.security import COOKIE, SESSION_S, Role, address_of
from api.web import chart_files_present, live_files_present
from api.web.acting import Acting
from api.web.charts import spark
from api.web.desk import Desk
from api.web.diagram.page import SingleLine
from api.web.forms import local_path, read_form
from api.web.wording import point_name
from facility.kinds import KINDS

RELOAD_S: Final = 15
HOURS: Final = ("1", "6", "24", "168", "720", "8760")
CHART_BUCKETS: Final = 240
QUARTER_S: Final = 900
CHART_WIDTH: Final = 960.0
CHART_HEIGHT: Final = 240.0
POINTS_OFFERED: Final = 2000
PUSH_S: Final = 2.0


def chart_step_s(hours: int) -> int:
    """Seconds of a chart's bucket: whole quarters where it is long, since these answer at once."""
    step_s = max(1, hours * 3600 // CHART_BUCKETS)
    return step_s if step_s < QUARTER_S else -(-step_s // QUARTER_S) * QUARTER_S


class Pages:
    """What a person can look at; one method per address."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._acting = Acting(desk)

    def router(self) -> APIRouter:
        """All addresses of the page; none of them is part of the API."""
        router = APIRouter(include_in_schema=False)
        acting, lines = self._acting, SingleLine(self._desk)
        get: dict[str, Callable[..., Awaitable[Response]]] = {
            "/": self.overview,
            "/single-line": lines.page,
            "/single-line/part": lines.part,
            "/what-if": lines.what_if,
            "/history": self.history,
            "/login": self.login_form,
            "/acknowledge": acting.acknowledge_form,
            "/override": acting.override_form,
            "/override/end": acting.end_form,
            "/modes": acting.modes_form,
            "/release": acting.release_form,
        }
        post: dict[str, Callable[..., Awaitable[Response]]] = {
            "/login": self.login,
            "/logout": self.logout,
            "/acknowledge": acting.acknowledge,
            "/override": acting.override,
            "/override/end": acting.end,
            "/modes": acting.modes,
            "/release": acting.release,
        }
        for path, page in get.items():
            router.add_api_route(path, page, methods=["GET"], response_model=None)
        for path, page in post.items():
            router.add_api_route(path, page, methods=["POST"], response_model=None)
        router.add_api_route(
            "/live",
            self.live,
            methods=["GET"],
            response_class=EventSourceResponse,
            dependencies=[Depends(needs(Role.VIEWER)), Depends(room)],
        )
        return router

    # ---- looking -----------------------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        """The one page."""
        who = await self._desk.who(request, Role.VIEWER)
        live = live_files_present()
        said = self._desk.gate.said(request.cookies.get(COOKIE, ""))
        values = await self._desk.rendering.overview()
        page = self._desk.page("overview.html", who, live=live, **values | {"said": said})
        if not live:
            page.headers["Refresh"] = f"{RELOAD_S}; url=/"
        return page

    async def live(self) -> AsyncIterator[ServerSentEvent]:
        """The parts of the overview that changed, as HTML, at most every two seconds."""
        clock = self._desk.hall.clock
        with self._desk.hall.feed.listen() as listener:
            shown: dict[str, str] = {}
            sent_s = float("-inf")
            until_s = clock.monotonic_s() + STREAM_S
            while clock.monotonic_s() < until_s:
                if await listener.next() is None:
                    return
                if clock.monotonic_s() - sent_s < PUSH_S:
                    continue
                sent_s = clock.monotonic_s()
                for name, html in (await self._desk.rendering.parts()).items():
                    if shown.get(name) != html:
                        shown[name] = html
                        yield ServerSentEvent(raw_data=html, event=name)

    async def history(self, request: Request) -> Response:
        """The past of one point: a chart drawn here, zoomable where uPlot is installed."""
        who = await self._desk.who(request, Role.VIEWER)
        hall, asked = self._desk.hall, request.query_params
        point = known(hall, asked.get("point", ""))
        hours = int(asked["hours"]) if asked.get("hours") in HOURS else int(HOURS[0])
        step_s = chart_step_s(hours)
        to_ms = hall.clock.utc_ms()
        from_ms = to_ms - hours * 3_600_000
        series = await ask(hall.store.history(point, from_ms, to_ms, step_s))
        means = [number(float(value)) for value in series.mean]
        line = list(zip((int(at_ms) for at_ms in series.times_ms), means, strict=True))
        name, unit = point_name(str(point)), KINDS[point.kind].unit
        query = f"from={iso(from_ms)}&to={iso(to_ms)}&step={step_s}"
        return self._desk.page(
            "history.html",
            who,
            point=str(point),
            points=[str(spec.id) for spec in hall.table.specs[:POINTS_OFFERED]],
            name=name,
            unit={"degC": "°C", "1": "", "code": "", "bool": ""}.get(unit, unit),
            chart=spark(name, line, 0.01, CHART_WIDTH, CHART_HEIGHT),
            missing=sum(value is None for value in means),
            buckets=len(means),
            step_s=round(series.step_s or step_s),
            rolled_up=series.resolution != "raw",
            hours=hours,
            choices=HOURS,
            source=f"/api/v1/points/{quote(str(point), safe=':')}/history?{query}",
            zone=hall.facility.site.timezone,
            zoomable=chart_files_present(),
        )

    # ---- logging in --------------------------------------------------------------------------

    async def login_form(self, request: Request) -> Response:
        """Asks for a key."""
        return self._desk.page(
            "login.html", None, wrong="", next=request.query_params.get("next", "/")
        )

    async def login(self, request: Request) -> Response:
        """Trades a key for a session cookie."""
        form = await read_form(request)
        target = local_path(form.get("next", "/"))
        try:
            token, _ = await self._desk.gate.log_in(
                form.get("key", "").strip(), address_of(request)
            )
        except Problem as problem:
            page = self._desk.page(
                "login.html", None, problem.status, wrong=problem.detail, next=target
            )
            page.headers.update(problem.headers)
            return page
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            COOKIE,
            token,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=self._desk.settings.secure_cookie,
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """Ends the session."""
        await self._desk.posted(request, Role.VIEWER)
        self._desk.gate.log_out(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer
