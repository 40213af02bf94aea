"""The hall at a glance, its racks, loops and devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends

from api.hall import DeviceStatus, Unknown
from api.picture import RackView, iso, loops, racks, sentence, trust
from api.routes.deps import HallDep, needs, problems
from api.routes.schemas import DeviceOut, FacilityOut, LoopOut, RackOut
from api.security import Role

router = APIRouter(
    tags=["facility"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems()
)


@router.get("/facility", response_model=FacilityOut, summary="The hall at a glance")
async def facility(hall: HallDep) -> Any:
    file = hall.facility
    text, state = sentence(hall)
    return {
        "name": file.site.name,
        "timezone": file.site.timezone,
        "config_sha256": hall.config_sha256,
        "started": iso(hall.status().started_ms),
        "now": iso(hall.clock.utc_ms()),
        "state": state,
        "sentence": text,
        "trust": asdict(trust(hall)),
        "control_enabled": file.control.enabled,
        "policy": file.controllers.allocation.policy,
        "modes": {scope: mode.value for scope, mode in hall.modes().items()},
        "racks": list(file.power.racks),
        "nodes": len(file.nodes),
        "elements": list(file.power.elements),
        "loops": list(file.cooling.loops),
        "devices": len(hall.devices()),
        "points": len(hall.table),
    }


def _rack(view: RackView) -> dict[str, Any]:
    return asdict(view) | {"mode": view.mode.value}


@router.get("/racks", response_model=list[RackOut], summary="Every rack")
async def all_racks(hall: HallDep) -> Any:
    """Power and caps in W, headroom in the worst single loss in W, tokens per joule."""
    return [_rack(view) for view in racks(hall)]


@router.get(
    "/racks/{rack}", response_model=RackOut, summary="One rack", responses=problems("not-found")
)
async def one_rack(rack: str, hall: HallDep) -> Any:
    """One rack; names of its nodes and points lead further."""
    for view in racks(hall):
        if view.rack == rack:
            return _rack(view)
    raise Unknown(f"no rack {rack!r}")


@router.get("/loops", response_model=list[LoopOut], summary="Every liquid loop")
async def all_loops(hall: HallDep) -> Any:
    """Temperatures in degC, margins to condensation and to throttling in K."""
    return [asdict(view) | {"mode": view.mode.value} for view in loops(hall)]


def _device(status: DeviceStatus) -> dict[str, Any]:
    shown = asdict(status)
    return shown | {"device": status.id, "last_good": iso(status.last_good_ms)}


@router.get("/devices", response_model=list[DeviceOut], summary="How every device answers")
async def devices(hall: HallDep, state: str | None = None) -> Any:
    """Devices and nodes in file order; `state` filters (good, bad, slow, unknown)."""
    return [_device(d) for d in hall.devices() if state in (None, d.state)]


@router.get(
    "/devices/{device}",
    response_model=DeviceOut,
    summary="How one device answers",
    responses=problems("not-found"),
)
async def one_device(device: str, hall: HallDep) -> Any:
    for status in hall.devices():
        if status.id == device:
            return _device(status)
    raise Unknown(f"no device {device!r}")
