"""Work on the plant: plan it, end it, and ask beforehand what it would cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query
from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from api.hall import Hall, Refused
from api.picture import iso
from api.routes import actions
from api.routes.deps import HallDep, Operator, Viewer, ask, needs, problems
from api.routes.schemas import Reason, Wish
from api.security import Role
from api.upkeep import NotAccepted, Plan
from controllers.maintenance.consequences import Code
from facility.maintenance import Kind, Maintenance

router = APIRouter(tags=["maintenance"], responses=problems())
viewer = [Depends(needs(Role.VIEWER))]

Subject = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Scope = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class MaintenanceIn(Wish):
    """What to work on: exactly one of element, rack, device, load and cdu."""

    element: Subject | None = None
    rack: Subject | None = None
    device: Subject | None = None
    load: Subject | None = None
    cdu: Subject | None = Field(None, description="a CDU of a loop: its load is taken out")
    start: AwareDatetime | None = Field(None, description="ISO 8601 with its zone; now if left out")
    end: AwareDatetime = Field(description="it ends by itself then")
    reason: Reason
    ticket: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=100, pattern=r"^[^\p{C}]*$")
    ] = Field("", description="one line: it stands in alarms and on the page")
    freeze: list[Scope] = Field(
        [], max_length=200, description="scopes in which only protection moves: hall, rack:r01 …"
    )
    accept: list[Code] = Field([], max_length=10, description="consequences that are accepted")

    @model_validator(mode="after")
    def _one_subject(self) -> MaintenanceIn:
        named = [self.element, self.rack, self.device, self.load, self.cdu]
        if sum(name is not None for name in named) != 1:
            raise ValueError("name exactly one of element, rack, device, load, cdu")
        return self


def subject_of(hall: Hall, wish: MaintenanceIn) -> tuple[Kind, str]:
    """What a wish is about; a CDU stands for the load that feeds it."""
    kinds: tuple[Kind, ...] = ("element", "rack", "device", "load")
    for kind in kinds:
        name = getattr(wish, kind)
        if name is not None:
            return kind, name
    cdu = wish.cdu or ""
    for loop in hall.facility.cooling.loops.values():
        if cdu in loop.cdus:
            return "load", loop.cdus[cdu]
    return "load", cdu


def shown(work: Maintenance, now_ms: int) -> dict[str, Any]:
    """One maintenance, with its state."""
    document = work.to_json()
    document.update(start=iso(work.since_ms), end=iso(work.until_ms), state=work.state(now_ms))
    del document["since_ms"], document["until_ms"]
    return document


@router.get("/maintenance", summary="What is out of service, or will be", dependencies=viewer)
async def maintenance(
    hall: HallDep,
    past: Annotated[bool, Query(description="those that are over or called off too")] = False,
) -> list[dict[str, Any]]:
    """`secured`: N+1 holds without it, caps included; null while it does not count yet."""
    now_ms = hall.clock.utc_ms()
    decision = hall.decision()
    told = decision.facts.get("maintenance", ()) if decision is not None else ()
    secured = {row["id"]: row["secured"] for row in told}
    if not past:
        return [shown(w, now_ms) | {"secured": secured.get(w.id)} for w in hall.upkeep.works()]
    rows = []
    for record in await ask(hall.store.maintenance(active=False)):
        row = shown(record.work, now_ms) | {"secured": secured.get(record.work.id)}
        if record.ended_ms is not None:
            row["state"] = "over"
        rows.append(row | {"ended": iso(record.ended_ms), "ended_by": record.ended_by})
    return rows


@router.post(
    "/maintenance",
    status_code=201,
    summary="Take something out of service",
    responses=problems("not-found", "refused", "not-accepted", "unavailable"),
)
async def add_maintenance(hall: HallDep, who: Operator, wish: MaintenanceIn) -> dict[str, Any]:
    """Counts as lost in every case from two minutes before its start; caps come down first.

    What it would cost is told (409, `not-accepted`) until each kind of it stands in `accept`.
    """
    now_ms = hall.clock.utc_ms()
    kind, subject = subject_of(hall, wish)
    since_ms = now_ms if wish.start is None else milliseconds(wish.start)
    plan = Plan(
        kind,
        subject,
        since_ms,
        milliseconds(wish.end),
        wish.reason,
        wish.ticket,
        tuple(wish.freeze),
        tuple(wish.accept),
    )
    try:
        work, consequences = await hall.upkeep.plan(plan, who.name)
    except (Refused, NotAccepted) as error:
        detail = {"refused": str(error), "reason": wish.reason, "ticket": wish.ticket}
        await actions.record(hall, who, "maintenance refused", f"{kind}:{subject}", detail)
        raise
    detail = work.to_json() | {"consequences": [dict(one) for one in consequences]}
    await actions.record(hall, who, "maintenance", work.name, detail)
    return shown(work, now_ms) | {"consequences": list(consequences)}


@router.delete(
    "/maintenance/{id}",
    summary="End it now, or call it off",
    responses=problems("not-found", "unavailable"),
)
async def end_maintenance(
    hall: HallDep, who: Operator, work_id: Annotated[str, Path(alias="id", max_length=100)]
) -> dict[str, Any]:
    """What it silenced and still stands is told again; caps rise when N+1 has room."""
    work = await hall.upkeep.end(work_id, who.name)
    await actions.record(hall, who, "maintenance ended", work.name, {"id": work.id})
    return shown(work, hall.clock.utc_ms()) | {"state": "over"}


@router.get(
    "/switching/{element}",
    summary="May I open this element then?",
    responses=problems("not-found", "refused", "unavailable"),
)
async def switching(
    hall: HallDep,
    who: Viewer,
    element: Annotated[str, Path(max_length=64)],
    at: Annotated[AwareDatetime | None, Query(description="ISO 8601 with its zone")] = None,
    minutes: Annotated[
        float, Query(alias="for", gt=0.0, le=43_200.0, description="minutes")
    ] = 120.0,
) -> dict[str, Any]:
    """A signed statement: per switching step what is dark, single-fed or over in any further loss.

    Stands on the forecast of that weekday and hour, or says that there is no history. Nothing is
    changed by asking; who asked is in the audit.
    """
    now_ms = hall.clock.utc_ms()
    at_ms = now_ms if at is None else milliseconds(at)
    document = dict(await hall.upkeep.ask(element, at_ms, minutes * 60.0, who.name))
    statement = document["statement"]
    detail = {
        "id": statement["id"],
        "answer": statement["answer"],
        "window": statement["window"]["text"],
        "signature": document["signature"]["value"],
    }
    await actions.record(hall, who, "switching asked", f"element:{statement['element']}", detail)
    return document


@router.post(
    "/statements/verify",
    summary="Is this statement ours, and still true?",
    dependencies=viewer,
    responses=problems("unavailable"),
)
async def verify(
    hall: HallDep, document: Annotated[dict[str, Any], Body(description="as /switching gave it")]
) -> dict[str, Any]:
    """`signed`: not a letter was changed. `valid`: in time, same file, nothing lost since."""
    return dict(await hall.upkeep.verify(document))


@router.get("/statements/key", summary="The public key of statements", dependencies=viewer)
async def public_key(hall: HallDep) -> dict[str, str]:
    """With it `wattkeeper verify` checks a statement anywhere."""
    return dict(await hall.upkeep.public_key())


def milliseconds(at: datetime) -> int:
    """UTC ms of a moment with its zone.

    Raises:
        Refused: no moment that a site will see.
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        return (at - epoch) // timedelta(milliseconds=1)
    except OverflowError:
        raise Refused("there is no such moment", "start") from None
