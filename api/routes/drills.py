"""Drills: what a loss would demand, and a real shed that is measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from api.picture import fact, finite, iso
from api.problems import Problem
from api.routes import actions
from api.routes.deps import HallDep, Operator, Viewer, needs, problems
from api.routes.schemas import Reason, Wish
from api.security import Role, require_role
from facility.drills import Drill

router = APIRouter(tags=["power"], responses=problems("unavailable"))


class DrillIn(Wish):
    """What is declared lost, and whether caps really move."""

    element: str = Field(min_length=1, max_length=200)
    kind: Literal["what_if", "shed"] = "what_if"
    reason: Reason | None = Field(None, description="needed for a shed")


def _told(drill: Drill) -> dict[str, Any]:
    return {
        "id": drill.id,
        "element": drill.element,
        "by": drill.by,
        "reason": drill.reason,
        "state": drill.state,
        "started": iso(drill.started_ms),
        "ended": None if drill.ended_ms is None else iso(drill.ended_ms),
        "report": finite(dict(drill.report)),
    }


@router.get("/drills", summary="Drills", dependencies=[Depends(needs(Role.VIEWER))])
async def drills(
    hall: HallDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[dict[str, Any]]:
    """The newest first.

    `report` has the times from the start to the read-back of every cap (`read_back_s`), to the
    fall of the rack meters (`meters_fell_s`), and to both (`shed_s`), s.
    """
    return [_told(drill) for drill in await hall.drills.listed(limit)]


@router.get("/corrective", summary="Corrective mode", dependencies=[Depends(needs(Role.VIEWER))])
async def corrective(hall: HallDep) -> dict[str, Any]:
    """Whether limits beyond those for hours are in force in cases of loss, and what is missing."""
    found = fact(hall.decision(), "corrective")
    if not found:
        raise Problem("unavailable", "no cycle has decided on it yet")
    answer: dict[str, Any] = finite(found)
    return answer


@router.post(
    "/drills",
    summary="Declare a loss",
    responses=problems("not-found", "refused"),
)
async def declare(hall: HallDep, who: Viewer, wish: DrillIn) -> dict[str, Any]:
    """`what_if` (any role): headroom and caps that the loss would demand; nothing moves.

    `shed` (engineer; in a simulation, or where the file says `control: {drills: allowed}`): the
    caps concerned really come down, it is measured how fast, and they come back. It ends by
    itself within 30 s, at once on a real alarm, and is refused while something is wrong already.
    """
    if wish.kind == "what_if":
        answer: dict[str, Any] = finite(dict(await hall.drills.suppose(wish.element)))
        return answer | {"kind": "what_if"}
    require_role(who, Role.ENGINEER)
    if wish.reason is None:
        raise Problem("invalid", "a shed needs a reason")
    drill = await hall.drills.start(wish.element, who.name, wish.reason)
    await actions.record(hall, who, "drill", drill.element, {"id": drill.id, "reason": wish.reason})
    return _told(drill) | {"kind": "shed"}


@router.delete("/drills/{id}", summary="Abort a drill", responses=problems("not-found"))
async def abort(
    hall: HallDep, who: Operator, drill_id: Annotated[str, Path(alias="id", max_length=100)]
) -> dict[str, Any]:
    """Caps go back at the site's ramp."""
    drill = await hall.drills.stop(drill_id, who.name)
    await actions.record(hall, who, "drill aborted", drill.element, {"id": drill.id})
    return _told(drill)
