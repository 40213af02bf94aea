"""The page of the single-line diagram: live, or with elements failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.picture import standing
from api.security import Role
from api.web import live_files_present
from api.web.desk import Desk
from api.web.diagram.drawing import draw
from api.web.overview import element_table
from api.web.supposing import what_if_answer
from facility.topology import named

RELOAD_S: Final = 15
#: A load that moves by less than this is not told, W.
MOVED_W: Final = 50.0
#: A sign before a name, so that no look is told by colour alone.
SIGNS: Final[Mapping[str, str]] = {
    "up": "",
    "group": "",
    "block": "",
    "over": "! ",
    "thin": "! ",
    "failed": "✕ ",
    "lost": "✕ ",
    "dead": "✕ ",
    "maintenance": "⚒ ",
}


class SingleLine:
    """The diagram's addresses."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(self, request: Request) -> Response:
        """Diagram, consequences, tables; changes nothing."""
        who = await self._desk.who(request, Role.VIEWER)
        fail, focus = self._asked(request)
        data = await self._desk.hall.single_line(fail)
        study, live = data["headroom"], live_files_present()
        page = self._desk.page(
            "single_line.html",
            who,
            live=live,
            fail=fail,
            focus=focus,
            study=study,
            state=standing(study),
            answer=what_if_answer(fail, study) if fail else self._sentence(),
            element_rows=element_table(study),
            elements=list(self._desk.hall.facility.power.elements),
            dark=[row["rack"] for row in data["racks"] if row["goes_dark"]],
            dark_loads=[row["load"] for row in data["loads"] if row["goes_dark"]],
            last_feed=[row["rack"] for row in data["racks"] if row["state"] == "last feed"],
            moved=[row for row in data["elements"] if abs(row["moved_w"] or 0.0) >= MOVED_W],
            trips=[row for row in data["elements"] if row["seconds_to_trip"] is not None],
            cooling=data["cooling"],
            caps=data["caps"],
            **self._diagram(data, focus),
        )
        if not live and not fail:
            page.headers["Refresh"] = f"{RELOAD_S}"
        return page

    async def part(self, request: Request) -> Response:
        """The diagram alone, which the page asks for again and again."""
        await self._desk.who(request, Role.VIEWER)
        fail, focus = self._asked(request)
        values = self._diagram(await self._desk.hall.single_line(fail), focus)
        return HTMLResponse(self._desk.rendering.html("part_single_line.html", **values))

    async def what_if(self, request: Request) -> Response:
        """The address that the what-if study had before it had a diagram."""
        query = request.url.query
        return RedirectResponse("/single-line" + (f"?{query}" if query else ""), 303)

    def _asked(self, request: Request) -> tuple[list[str], str | None]:
        elements = self._desk.hall.facility.power.elements
        asked = [name for name in request.query_params.getlist("fail") if name][:50]
        fail = list(dict.fromkeys(named(name, elements) or name for name in asked))
        focus = request.query_params.get("focus")
        return fail, focus if focus in elements else None

    def _sentence(self) -> str:
        decision = self._desk.hall.decision()
        said = None if decision is None else decision.facts.get("sentence")
        return str(said) if said else "No cycle has studied the topology yet."

    def _diagram(self, data: Mapping[str, Any], focus: str | None) -> dict[str, Any]:
        return {"drawing": draw(self._desk.hall.facility.power, data, focus), "sign": SIGNS}
