"""Cords as they are wired: what the meters leave unexplained, and drills of one cord each."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from api.cords import Told
from api.picture import fact, finite, iso
from api.problems import Problem
from api.routes import actions
from api.routes.deps import HallDep, Operator, needs, problems
from api.routes.schemas import Reason, Wish
from api.security import Role

router = APIRouter(tags=["power"], responses=problems("unavailable"))
viewer = [Depends(needs(Role.VIEWER))]

DAY_MS = 86_400_000.0


class CordDrillIn(Wish):
    """Which cord somebody is going to open, and for how long it is waited for."""

    load: str = Field(min_length=1, max_length=64, description="rack or other load")
    feed: str = Field(min_length=1, max_length=64)
    minutes: float = Field(15.0, ge=1.0, le=120.0)
    reason: Reason


def _shown(told: Told) -> dict[str, Any]:
    drill = told.drill
    return {
        "id": drill.id,
        "load": drill.load,
        "feed": drill.feed,
        "parent": drill.parent,
        "by": drill.by,
        "reason": drill.reason,
        "state": drill.state,
        "text": told.text,
        "started": iso(drill.started_ms),
        "until": iso(drill.until_ms),
        "ended": None if drill.ended_ms is None else iso(drill.ended_ms),
        "config_sha256": drill.config_sha256,
        "evidence": finite(dict(drill.evidence)),
    }


@router.get("/wiring", summary="What meters leave unexplained", dependencies=viewer)
async def wiring(hall: HallDep) -> dict[str, Any]:
    """Per element: its meter, what the meters declared below it explain, and the rest, W.

    `residual_w` is null where a meter is missing (`missing` names it), never 0. `suspect`: more
    is left than the meters may err, so a cord, a load or a meter is not as the file says.
    """
    decision = hall.decision()
    found = fact(decision, "wiring")
    if decision is None or not found:
        raise Problem("unavailable", "no cycle has compared the meters yet")
    return {"at": iso(decision.now_ms), "elements": finite(found)}


@router.get("/cords", summary="Cords, and which are proved", dependencies=viewer)
async def cords(
    hall: HallDep, unsigned: Annotated[bool, Query(description="only those not proved")] = False
) -> list[dict[str, Any]]:
    """Every feed of every load. `signed`: when a drill proved that it hangs on `parent`.

    `age_days`: of the signature; of one that is not signed, how long it has been declared so.
    """
    now_ms = hall.clock.utc_ms()
    rows = []
    for cord in hall.cords.cords():
        if unsigned and cord.signed is not None:
            continue
        proof = cord.signed
        at_ms = cord.since_ms if proof is None else proof.ended_ms or proof.started_ms
        rows.append(
            {
                "load": cord.load,
                "feed": cord.feed,
                "parent": cord.parent,
                "meter": cord.device,
                "signed": None if proof is None else iso(at_ms),
                "signed_by": None if proof is None else proof.by,
                "drill": None if proof is None else proof.id,
                "age_days": round(max(now_ms - at_ms, 0) / DAY_MS, 2),
            }
        )
    return rows


@router.get("/cords/drills", summary="Drills of single cords", dependencies=viewer)
async def cord_drills(
    hall: HallDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[dict[str, Any]]:
    """The newest first; `text` says what to do now, `evidence` what the meters showed, W."""
    return [_shown(told) for told in await hall.cords.listed(limit)]


@router.post(
    "/cords/drills",
    status_code=201,
    summary="Prove one cord",
    responses=problems("not-found", "refused"),
)
async def drill_cord(hall: HallDep, who: Operator, wish: CordDrillIn) -> dict[str, Any]:
    """Watches a cord that you open by hand once `text` says so; nothing is switched by asking.

    It is signed off when its own meter reads nothing, the load's other feeds carry all of it,
    every metered element above follows, and it carries again once it is closed.
    """
    told = await hall.cords.start(wish.load, wish.feed, wish.minutes, who.name, wish.reason)
    detail = {"id": told.drill.id, "reason": wish.reason, "minutes": wish.minutes}
    await actions.record(hall, who, "cord drill", told.drill.name, detail)
    return _shown(told)


@router.delete(
    "/cords/drills/{id}", summary="Call a drill of a cord off", responses=problems("not-found")
)
async def cancel_cord_drill(
    hall: HallDep, who: Operator, drill_id: Annotated[str, Path(alias="id", max_length=100)]
) -> dict[str, Any]:
    """Nothing is signed."""
    told = await hall.cords.cancel(drill_id, who.name)
    await actions.record(hall, who, "cord drill off", told.drill.name, {"id": told.drill.id})
    return _shown(told)
