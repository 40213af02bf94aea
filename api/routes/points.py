"""Points and their newest values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query

from api.hall import Hall, Unknown
from api.picture import iso
from api.routes.deps import HallDep, needs, problems
from api.routes.schemas import PointOut, PointsPage, ReadingOut
from api.security import Role
from facility.kinds import KINDS
from facility.points import PointId, PointSpec
from facility.snapshot import Reading

router = APIRouter(
    tags=["points"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems()
)

PAGE_MAX: Final = 1000

Device = Annotated[str | None, Query(description="device or node", max_length=100)]
Part = Annotated[str | None, Query(description="total, inlet, phase.1, gpu.0 …", max_length=100)]
Kind = Annotated[str | None, Query(description="active_power, temperature …", max_length=100)]
Many = Annotated[list[str] | None, Query(description="device:part:kind, repeated", max_length=500)]


def parsed(text: str) -> PointId:
    """A reference read.

    Raises:
        Unknown: not device:part:kind.
    """
    try:
        return PointId.parse(text)
    except ValueError as error:
        raise Unknown(str(error)) from None


def known(hall: Hall, text: str) -> PointId:
    """The point of a reference.

    Raises:
        Unknown: not device:part:kind, or not in this hall.
    """
    point = parsed(text)
    if point not in hall.table.index:
        raise Unknown(f"this hall has no point {text!r}")
    return point


def _matching(
    hall: Hall, device: str | None, part: str | None, kind: str | None
) -> Iterator[PointSpec]:
    for spec in hall.table.specs:
        if (
            device in (None, spec.id.device)
            and part in (None, spec.id.part)
            and kind in (None, spec.id.kind)
        ):
            yield spec


def _point(spec: PointSpec) -> dict[str, Any]:
    return {
        "point": str(spec.id),
        "device": spec.id.device,
        "part": spec.id.part,
        "kind": spec.id.kind,
        "unit": spec.kind.unit,
        "nature": spec.kind.nature.value,
        "writable": spec.writable,
        "low": spec.low,
        "high": spec.high,
        "stale_after_s": spec.stale_after_s,
        "states": {str(code): name for code, name in spec.states},
    }


@router.get("/points", response_model=PointsPage, summary="Points, filtered")
async def points(
    hall: HallDep,
    device: Device = None,
    part: Part = None,
    kind: Kind = None,
    writable: bool | None = None,
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 200,
) -> Any:
    start = hall.table.index[known(hall, after)] + 1 if after is not None else 0
    found = [
        spec
        for spec in _matching(hall, device, part, kind)
        if writable in (None, spec.writable) and hall.table.index[spec.id] >= start
    ]
    page = found[:limit]
    return {
        "items": [_point(spec) for spec in page],
        "next": str(page[-1].id) if len(found) > limit else None,
    }


@router.get(
    "/points/{ref}",
    response_model=PointOut,
    summary="One point",
    responses=problems("not-found"),
)
async def one_point(ref: str, hall: HallDep) -> Any:
    return _point(hall.table.specs[hall.table.index[known(hall, ref)]])


def _reading(hall: Hall, point: PointId) -> dict[str, Any]:
    snapshot = hall.snapshot()
    reading: Reading | None = snapshot.reading(point) if snapshot is not None else None
    if reading is None:
        unit = KINDS[point.kind].unit
        empty = {"value": None, "quality": "bad", "flaw": None, "age_s": None, "at": None}
        return empty | {"point": str(point), "unit": unit}
    return {
        "point": str(point),
        "value": reading.value,
        "unit": reading.unit,
        "quality": reading.grade.name.lower(),
        "flaw": reading.flaw.name.lower() if reading.flaw else None,
        "age_s": reading.age_s,
        "at": iso(reading.received_ms) if reading.received_ms else None,
    }


@router.get(
    "/readings",
    response_model=list[ReadingOut],
    summary="Newest values",
    responses=problems("not-found"),
)
async def readings(
    hall: HallDep,
    point: Many = None,
    device: Device = None,
    part: Part = None,
    kind: Kind = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> Any:
    """What the last cycle saw, in canonical units; the points named, else those that match."""
    if point:
        return [_reading(hall, known(hall, text)) for text in point]
    specs = list(_matching(hall, device, part, kind))
    return [_reading(hall, spec.id) for spec in specs[:limit]]


@router.get(
    "/readings/{ref}",
    response_model=ReadingOut,
    summary="The newest value of one point",
    responses=problems("not-found"),
)
async def one_reading(ref: str, hall: HallDep) -> Any:
    return _reading(hall, known(hall, ref))
