"""What people may change: overrides, modes, and giving back to local control."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from api.hall import Unknown
from api.picture import iso, mode_of, scopes
from api.routes import actions
from api.routes.deps import Engineer, HallDep, Operator, needs, problems
from api.routes.points import known
from api.routes.schemas import (
    GrantedOut,
    ModeIn,
    ModeOut,
    OverrideIn,
    OverrideOut,
    ReleaseIn,
    ReleaseOut,
)
from api.security import Role
from facility.commands import Mode, Override
from facility.kinds import KINDS

router = APIRouter(tags=["control"], responses=problems())

Scope = Annotated[str, Path(description="hall, rack:r01 or loop:loop-1", max_length=100)]
viewer = [Depends(needs(Role.VIEWER))]


def _override(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "point": str(override.point),
        "value": override.value,
        "unit": KINDS[override.point.kind].unit,
        "by": override.by,
        "reason": override.reason,
        "since": iso(override.since_ms),
        "until": iso(override.until_ms),
    }


@router.get(
    "/overrides",
    response_model=list[OverrideOut],
    summary="Overrides in force",
    dependencies=viewer,
)
async def overrides(hall: HallDep) -> Any:
    return [_override(override) for override in hall.overrides()]


@router.post(
    "/overrides",
    response_model=GrantedOut,
    status_code=201,
    summary="Hold a point at a value",
    responses=problems("not-found", "refused", "unavailable"),
)
async def add_override(hall: HallDep, who: Operator, wish: OverrideIn) -> Any:
    """Beats efficiency and comfort, never protection; ends by itself after `minutes`.

    `value` in the answer is what was granted, `bounded_by` what made it differ. What does not fit
    is refused (409), naming the element or rule that stands in the way.
    """
    point = known(hall, wish.point)
    granted = await actions.hold(hall, who, point, wish.value, wish.minutes, wish.reason)
    answer = _override(granted.override)
    return answer | {"asked": granted.asked, "bounded_by": granted.bounded_by}


@router.delete(
    "/overrides/{id}",
    response_model=OverrideOut,
    summary="End an override now",
    responses=problems("not-found", "unavailable"),
)
async def cancel_override(
    hall: HallDep, who: Operator, override_id: Annotated[str, Path(alias="id", max_length=100)]
) -> Any:
    """Automation takes over from what it would command now, not from what stood before."""
    return _override(await actions.end_hold(hall, who, override_id))


@router.get("/modes", response_model=list[ModeOut], summary="Who acts where", dependencies=viewer)
async def modes(hall: HallDep) -> Any:
    """`off`: local control; `observe`: computes, writes nothing; `auto`: Wattkeeper acts."""
    return [
        {"scope": scope, "mode": mode_of(hall, scope).value, "own": scope in hall.modes()}
        for scope in scopes(hall)
    ]


@router.put(
    "/modes/{scope}",
    response_model=ModeOut,
    summary="Set who acts in a scope",
    responses=problems("not-found", "refused", "unavailable"),
)
async def set_mode(hall: HallDep, who: Engineer, scope: Scope, wish: ModeIn) -> Any:
    """The narrower scope wins over the hall's mode."""
    if scope not in scopes(hall):
        raise Unknown(f"no scope {scope!r}")
    await actions.set_mode(hall, who, scope, Mode(wish.mode), wish.reason)
    return {"scope": scope, "mode": mode_of(hall, scope).value, "own": True}


@router.get(
    "/release/{scope}",
    response_model=ReleaseOut,
    summary="What a release would move",
    responses=problems("not-found"),
    dependencies=viewer,
)
async def release_preview(hall: HallDep, scope: Scope) -> Any:
    """Change of load in W; nothing is released by asking."""
    seen = hall.release_preview(scope)
    answer = {"scope": scope, "moves_w": seen.moves_w, "text": seen.text}
    return answer | {"released": False, "audited": None}


@router.post(
    "/release/{scope}",
    response_model=ReleaseOut,
    summary="Give back to local control, now",
    responses=problems("not-found"),
)
async def release(hall: HallDep, who: Operator, scope: Scope, wish: ReleaseIn) -> Any:
    """Works with the database down; then `audited` is false and only the log has it."""
    done, audited = await actions.release(hall, who, scope, wish.reason)
    answer = {"scope": scope, "moves_w": done.moves_w, "text": done.text}
    return answer | {"released": True, "audited": audited}
