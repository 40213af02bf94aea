"""Templates, and the parts of the overview that are sent again when they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.hall import Hall
from api.routes.deps import ask
from api.web import TEMPLATES
from api.web.overview import from_memory, overview
from api.web.wording import filters
from facility.store.errors import StoreError

#: Parts by the id of the element they fill and the event they are sent as.
PARTS: Final[Mapping[str, str]] = {
    "top": "part_top.html",
    "alarms": "part_alarms.html",
    "cards": "part_cards.html",
    "racks": "part_racks.html",
    "elements": "part_elements.html",
}
ALARMS_WAIT_S: Final = 1.0
NO_DATABASE: Final = (
    "The database does not answer: these alarms stand, who has seen them is not known now."
)


class Rendering:
    """The page of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= filters(ZoneInfo(hall.facility.site.timezone))
        self._templates.globals["site"] = hall.facility.site.name
        self._parts: tuple[object, dict[str, str]] = (None, {})

    def html(self, template: str, **values: Any) -> str:
        """One template; names that are not given are errors."""
        return self._templates.get_template(template).render({"said": "", **values})

    async def overview(self) -> dict[str, Any]:
        """What the overview says now; alarms from memory when the database is down."""
        note = ""
        try:
            records = await ask(self._hall.store.alarms(active_only=True), ALARMS_WAIT_S)
        except (StoreError, TimeoutError):
            records, note = from_memory(self._hall.feed.active_alarms()), NO_DATABASE
        return overview(self._hall, records, note)

    async def parts(self) -> Mapping[str, str]:
        """Every live part; rendered once per cycle, however many look."""
        decision = self._hall.decision()
        if self._parts[0] is not decision or decision is None:
            values = await self.overview()
            self._parts = (decision, {k: self.html(t, **values) for k, t in PARTS.items()})
        return self._parts[1]
