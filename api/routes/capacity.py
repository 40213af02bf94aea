"""What the hall can still take, and whether it is built as it should be."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query

from api.picture import finite
from api.routes.deps import HallDep, needs, problems
from api.security import Role
from controllers.capacity import Wish

router = APIRouter(
    tags=["capacity"],
    dependencies=[Depends(needs(Role.VIEWER))],
    responses=problems("not-found", "refused"),
)

Name = Annotated[str, Path(max_length=64)]
Watts = Annotated[
    float, Query(gt=0.0, le=1e9, allow_inf_nan=False, description="most that it draws, W")
]
PhaseName = Annotated[
    Literal["L1", "L2", "L3"] | None, Query(description="of a single-phase load; else as the rack")
]


@router.get("/capacity", summary="Feeds, levels, sizing, lots and losses")
async def capacity(
    hall: HallDep,
    rack_w: Annotated[
        float | None,
        Query(gt=0.0, le=1e9, allow_inf_nan=False, description="of racks still to come, W"),
    ] = None,
    lot: Annotated[int, Query(ge=1, le=1000, description="racks that come together")] = 1,
    margin: Annotated[
        float, Query(ge=0.0, lt=1.0, description="part of every limit that stays free")
    ] = 0.05,
) -> dict[str, Any]:
    """Everything that needs no question.

    Single-fed and wrongly fed loads; N+1 per level; supply against chip peak; racks in lots that
    keep a margin; conversion losses from source to rack, as the meters tell them.
    """
    answer: dict[str, Any] = finite(dict(await hall.upkeep.capacity(rack_w, lot, margin)))
    return answer


@router.get("/capacity/racks/{rack}", summary="Can this rack take one more server?")
async def server(
    hall: HallDep,
    rack: Name,
    watts: Watts = 10_000.0,
    phase: PhaseName = None,
    units: Annotated[int | None, Query(ge=1, le=100)] = None,
    weight_kg: Annotated[float | None, Query(gt=0.0, le=1e6, allow_inf_nan=False)] = None,
    ports: Annotated[int | None, Query(ge=0, le=1000)] = None,
) -> dict[str, Any]:
    """`verdict` is yes, no or unknown, with what binds.

    Per side, per phase, now and after failover, cooling after its worst loss, space, weight and
    ports. What nobody stated is `unknown`, never free.
    """
    wish = Wish(watts, phase, units, weight_kg, ports)
    answer: dict[str, Any] = finite(dict(await hall.upkeep.server_fits(rack, wish)))
    return answer


@router.get("/capacity/rows/{row}", summary="Can this row take one more rack?")
async def rack_in_row(
    hall: HallDep,
    row: Name,
    watts: Watts = 100_000.0,
    like: Annotated[
        str | None, Query(max_length=64, description="rack whose feeds and cooling it gets")
    ] = None,
    phase: PhaseName = None,
) -> dict[str, Any]:
    """A row is one of the file's `power.rows`, or an element that racks hang on directly."""
    wish = Wish(watts, phase)
    answer: dict[str, Any] = finite(dict(await hall.upkeep.rack_fits(row, like, wish)))
    return answer
