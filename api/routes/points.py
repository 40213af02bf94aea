"""Points, their newest values and their past."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AwareDatetime
from starlette.responses import StreamingResponse

from api.hall import Hall, Unknown
from api.picture import iso, number
from api.problems import Problem
from api.routes.deps import HallDep, ask, needs, problems
from api.routes.schemas import HistoryOut, PointOut, PointsPage, ReadingOut
from api.security import Role
from facility.kinds import KINDS
from facility.points import PointId, PointSpec, grade_of
from facility.snapshot import Reading
from facility.store.records import Series

router = APIRouter(
    tags=["points"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems()
)

PAGE_MAX: Final = 1000
HOUR_MS: Final = 3_600_000

Device = Annotated[str | None, Query(description="device or node", max_length=100)]
Part = Annotated[str | None, Query(description="total, inlet, phase.1, gpu.0 …", max_length=100)]
Kind = Annotated[str | None, Query(description="active_power, temperature …", max_length=100)]
Many = Annotated[list[str] | None, Query(description="device:part:kind, repeated", max_length=500)]


def known(hall: Hall, text: str) -> PointId:
    """The point of a reference.

    Raises:
        Unknown: not device:part:kind, or not in this hall.
    """
    try:
        point = PointId.parse(text)
    except ValueError as error:
        raise Unknown(str(error)) from None
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


def _samples(series: Series) -> Iterator[dict[str, Any]]:
    good = series.good_fraction
    for i in range(len(series)):
        yield {
            "at": iso(int(series.times_ms[i])),
            "mean": number(float(series.mean[i])),
            "min": number(float(series.minimum[i])),
            "max": number(float(series.maximum[i])),
            "good_fraction": number(float(good[i])),
        }


def _csv(series: Series, unit: str) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")
    names = ("at", f"mean ({unit})", f"min ({unit})", f"max ({unit})", "good_fraction", "quality")
    writer.writerow(names)
    for i, sample in enumerate(_samples(series)):
        packed = series.quality[i] if series.quality is not None else None
        quality = "" if packed is None else grade_of(int(packed)).name.lower()
        cells = ["" if value is None else value for value in sample.values()]
        writer.writerow([*cells, quality])
        if i % 500 == 0:
            yield line.getvalue()
            line.seek(0)
            line.truncate()
    yield line.getvalue()


@router.get(
    "/points/{ref}/history",
    response_model=HistoryOut,
    summary="The past of one point",
    responses=problems("not-found", "too-much", "unavailable"),
)
async def history(
    request: Request,
    hall: HallDep,
    ref: str,
    from_: Annotated[
        AwareDatetime | None, Query(alias="from", description="default: an hour before `to`")
    ] = None,
    to: Annotated[AwareDatetime | None, Query(description="default: now")] = None,
    step: Annotated[
        float | None, Query(gt=0, le=366 * 86400, description="seconds; without it: raw samples")
    ] = None,
    form: Annotated[Literal["json", "csv"] | None, Query(alias="format")] = None,
) -> Any:
    """From `from` (included) to `to` (not included), ISO 8601 with a zone, in the point's unit.

    JSON, or CSV by `format=csv` or `Accept: text/csv`. With a step: mean, min and max of the good
    samples in each bucket; a bucket without any is null (empty in CSV), never 0.
    """
    point = known(hall, ref)
    to_ms = hall.clock.utc_ms() if to is None else round(to.timestamp() * 1e3)
    from_ms = to_ms - HOUR_MS if from_ is None else round(from_.timestamp() * 1e3)
    if from_ms >= to_ms:
        where = [{"where": "query.from", "problem": "is not before `to`"}]
        raise Problem("invalid", "query.from: is not before `to`", errors=where)
    series = await ask(hall.store.history(point, from_ms, to_ms, step))
    unit = KINDS[point.kind].unit
    if form == "csv" or (form is None and "text/csv" in request.headers.get("accept", "")):
        name = f"{point}.csv".replace(":", "_").replace('"', "")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(_csv(series, unit), media_type="text/csv", headers=headers)
    return {"point": str(point), "unit": unit, "step_s": step, "samples": list(_samples(series))}
