"""Alarms that stand, their history, and who has seen them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from api.picture import iso
from api.routes import actions
from api.routes.deps import HallDep, Operator, ask, needs, problems
from api.routes.journal import Limit, alarm_event
from api.routes.schemas import AcknowledgeIn, AlarmChangeOut, AlarmOut
from api.security import Role
from facility.store.records import AlarmRecord

router = APIRouter(tags=["alarms"], responses=problems("unavailable"))
viewer = [Depends(needs(Role.VIEWER))]


def alarm_json(record: AlarmRecord) -> dict[str, Any]:
    return alarm_event(record.event) | {
        "since": iso(record.since_ms),
        "cleared": iso(record.cleared_ms),
        "acknowledged_by": record.acknowledged_by,
        "acknowledged": iso(record.acknowledged_ms),
        "note": record.note,
    }


@router.get(
    "/alarms", response_model=list[AlarmOut], summary="Alarms that stand", dependencies=viewer
)
async def alarms(
    hall: HallDep,
    active: Annotated[bool, Query(description="false: also those that have cleared")] = True,
) -> Any:
    """One page per cause: an alarm with a `parent` is explained by that one."""
    return [alarm_json(record) for record in await ask(hall.store.alarms(active_only=active))]


@router.get(
    "/alarms/history",
    response_model=list[AlarmChangeOut],
    summary="Changes of alarms",
    dependencies=viewer,
)
async def alarm_history(
    hall: HallDep,
    limit: Limit = 100,
    key: Annotated[str | None, Query(max_length=300)] = None,
) -> Any:
    """raised, cleared, acknowledged: the newest first."""
    found = await ask(hall.store.alarm_changes(key=key, limit=limit))
    return [
        {
            "id": change.id,
            "key": change.key,
            "change": change.change,
            "at": iso(change.at_ms),
            "text": change.text,
            "by": change.by,
            "note": change.note,
        }
        for change in found
    ]


@router.post(
    "/alarms/{key}/acknowledge",
    response_model=AlarmOut,
    summary="Say that you have seen an alarm",
    responses=problems("not-found"),
)
async def acknowledge(
    hall: HallDep, who: Operator, key: Annotated[str, Path(max_length=300)], wish: AcknowledgeIn
) -> Any:
    """With a note on what you do about it; the alarm stands until its cause is gone."""
    await actions.acknowledge(hall, who, key, wish.note)
    found = await ask(hall.store.alarms(active_only=False))
    return next(alarm_json(record) for record in found if record.event.key == key)
