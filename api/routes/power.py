"""Headroom in every single loss, what-if studies, and the allocation of caps."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from api.picture import fact, finite, iso
from api.problems import Problem
from api.routes.deps import HallDep, needs, problems
from api.security import Role
from facility.topology import Topology, cases_json, named

router = APIRouter(
    tags=["power"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems("unavailable")
)


@router.get("/headroom", summary="N+1 study of the present load", responses=problems("not-found"))
async def headroom(
    hall: HallDep,
    fail: Annotated[
        list[str] | None, Query(description="element that fails too; repeated", max_length=50)
    ] = None,
) -> dict[str, Any]:
    """Every element and rack in its worst case, W; negative headroom: redundancy is lost.

    With `fail`, the same study with these elements gone: nothing is changed by asking.
    """
    if fail:
        elements = hall.facility.power.elements
        answer: dict[str, Any] = finite(
            await hall.what_if([named(name, elements) or name for name in fail])
        )
        return answer
    decision = hall.decision()
    study = fact(decision, "headroom")
    if not study:
        raise Problem("unavailable", "no cycle has studied the topology yet")
    known: dict[str, Any] = finite(study)
    return known


@router.get("/headroom/cases", summary="What each single loss darkens")
async def headroom_cases(hall: HallDep) -> list[dict[str, Any]]:
    """Per case of the file's plant: dead elements, dark racks, dark CDUs and pumps.

    Per loop the flow (L/min) and the heat capacity (W) that are left. `/headroom` has the watts.
    """
    power, loops = hall.facility.power, hall.facility.cooling.loops
    return await asyncio.to_thread(lambda: cases_json(Topology.of(power), loops))


@router.get(
    "/single-line",
    summary="The single-line diagram as data",
    responses=problems("not-found"),
)
async def single_line(
    hall: HallDep,
    fail: Annotated[
        list[str] | None, Query(description="element that fails; repeated", max_length=50)
    ] = None,
) -> dict[str, Any]:
    """Every element with its state, load, limit, headroom and seconds to trip.

    With `fail`, what follows at once (dark racks, CDUs and pumps, racks on their last feed, loads
    moved) and the caps that would restore N+1: nothing is changed by asking.
    """
    elements = hall.facility.power.elements
    asked = dict.fromkeys(named(name, elements) or name for name in fail or ())
    answer: dict[str, Any] = finite(await hall.single_line(list(asked)))
    return answer


@router.get("/allocation", summary="The caps in force: plan and prices")
async def allocation(hall: HallDep) -> dict[str, Any]:
    """Caps in W per GPU, tokens/s per node, and what one more kW is worth where it is scarce."""
    decision = hall.decision()
    found = fact(decision, "allocation")
    if decision is None or not found:
        raise Problem("unavailable", "no allocation has been made yet")
    answer: dict[str, Any] = finite(found)
    return answer | {"cycle": decision.cycle, "at": iso(decision.now_ms)}
