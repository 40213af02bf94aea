"""The past of points: one by its name, or many in one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import StreamingResponse

from api.hall import Hall, Unknown
from api.past import asking, shaping
from api.past.asking import Asked, resumed
from api.routes.deps import HallDep, ask, needs, problems
from api.routes.points import parsed
from api.routes.schemas import HistoriesOut, HistoryOut
from api.security import Role
from facility.points import PointId
from facility.store.past import Answer

router = APIRouter(
    tags=["history"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems()
)

#: A year of quarters takes longer than the newest values.
WAIT_S: Final = 20.0
POINTS_MAX: Final = 500

Points = Annotated[
    list[str],
    Query(description="device:part:kind; repeated, or with commas between", min_length=1),
]


def _csv_wanted(request: Request, form: str | None) -> bool:
    return form == "csv" or (form is None and "text/csv" in request.headers.get("accept", ""))


async def _lines(
    hall: Hall, wish: Asked, first: Answer, table: shaping.Table
) -> AsyncIterator[str]:
    """The first page, then every page that follows."""
    page, question = first, wish.question
    while True:
        for text in table.page(page):
            yield text
        if page.next_ms is None:
            return
        series = page.series[0]
        question = resumed(question, page.next_ms, series.resolution, series.step_s or 0.0)
        page = await ask(hall.store.past(question), WAIT_S)


async def _as_csv(hall: Hall, wish: Asked, name: str, *, alone: bool) -> StreamingResponse:
    asking.check_raw(wish.question)
    first = await ask(hall.store.past(wish.question), WAIT_S)
    lines = _lines(hall, wish, first, shaping.Table(wish.shown, alone=alone))
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    headers = {"Content-Disposition": f'attachment; filename="{safe}.csv"'}
    return StreamingResponse(lines, media_type="text/csv", headers=headers)


async def _named(hall: Hall, texts: Sequence[str]) -> list[PointId]:
    """The points of references; also those of devices that are no longer in the file.

    Raises:
        Unknown: one is no device:part:kind, or neither in this hall nor ever stored.
    """
    points = [parsed(text) for text in texts]
    gone = [point for point in points if point not in hall.table.index]
    if gone:
        stored = await ask(hall.store.stored(gone))
        missing = [point for point in gone if point not in stored]
        if missing:
            raise Unknown(f"this hall has no point {str(missing[0])!r}")
    return points


@router.get(
    "/points/{ref}/history",
    response_model=HistoryOut,
    response_model_exclude_unset=True,
    summary="The past of one point",
    responses=problems("not-found", "too-much", "unavailable"),
)
async def history(
    request: Request,
    hall: HallDep,
    ref: str,
    from_: asking.From = None,
    to: asking.To = None,
    step: asking.Step = None,
    resolution: asking.From_ = None,
    aggregate: asking.Wanted = None,
    limit: asking.Limit = asking.PAGE_MAX,
    cursor: asking.Cursor = None,
    form: asking.Form = None,
) -> Any:
    """From `from` (included) to `to` (not included), ISO 8601 with a zone, in the point's unit.

    Without a step: raw samples, or, where these are no longer kept, quarters of an hour; with a
    step: the aggregates of the good samples in each bucket. A bucket without any is null (empty in
    CSV), never 0. `resolution` and `step_s` say what the answer was made from. JSON comes in pages
    of `limit` samples (`next` is the `cursor` of the page after), CSV (`format=csv` or
    `Accept: text/csv`) in one piece.
    """
    (point,) = await _named(hall, [ref])
    wish = asking.asked(
        [point], hall.clock.utc_ms(), from_, to, step, resolution, aggregate, limit, cursor
    )
    if _csv_wanted(request, form):
        return await _as_csv(hall, wish, str(point), alone=True)
    return shaping.one_as_json(await ask(hall.store.past(wish.question), WAIT_S), wish.shown)


async def _points(hall: Hall, texts: Sequence[str]) -> list[PointId]:
    names = dict.fromkeys(name.strip() for text in texts for name in text.split(","))
    if len(names) > POINTS_MAX:
        raise asking.invalid("points", f"{len(names)} points, at most {POINTS_MAX} are given")
    return await _named(hall, list(names))


@router.get(
    "/history",
    response_model=HistoriesOut,
    summary="The past of several points",
    responses=problems("not-found", "too-much", "unavailable"),
)
async def histories(
    request: Request,
    hall: HallDep,
    points: Points,
    from_: asking.From = None,
    to: asking.To = None,
    step: asking.Step = None,
    resolution: asking.From_ = None,
    aggregate: asking.Wanted = None,
    limit: asking.Limit = asking.PAGE_MAX,
    cursor: asking.Cursor = None,
    form: asking.Form = None,
) -> Any:
    """As the past of one point, all at one resolution and step; arrays for each point.

    CSV has a row for each bucket with all points side by side: "tokens per watt per day, all year"
    is `points=NODE:total:tokens_generated,PDU:total:energy&step=1d&aggregate=delta&format=csv`.
    Raw samples have a row each.
    """
    wish = asking.asked(
        await _points(hall, points),
        hall.clock.utc_ms(),
        from_,
        to,
        step,
        resolution,
        aggregate,
        limit,
        cursor,
    )
    if _csv_wanted(request, form):
        return await _as_csv(hall, wish, "history", alone=False)
    answer = await ask(hall.store.past(wish.question), WAIT_S)
    return StreamingResponse(
        shaping.many_as_json(answer, wish.shown), media_type="application/json"
    )
