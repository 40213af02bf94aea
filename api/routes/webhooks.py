"""Where alarms go, and what became of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from api.picture import iso
from api.routes import actions
from api.routes.deps import HallDep, Operator, ask, needs, problems
from api.routes.journal import Limit
from api.routes.schemas import DeliveryOut, SinkOut, SinkTestOut
from api.security import Role

router = APIRouter(prefix="/webhooks", tags=["webhooks"], responses=problems())
viewer = [Depends(needs(Role.VIEWER))]


@router.get("", response_model=list[SinkOut], summary="Where alarms go", dependencies=viewer)
async def sinks(hall: HallDep) -> Any:
    """Sinks stand in the facility file; their secrets are never shown."""
    return [
        {"sink": name, "url": sink.url, "pages_only": sink.pages_only}
        for name, sink in hall.facility.alerts.webhooks.items()
    ]


@router.get(
    "/deliveries",
    response_model=list[DeliveryOut],
    summary="Messages and how they stand",
    responses=problems("unavailable"),
    dependencies=viewer,
)
async def deliveries(hall: HallDep, limit: Limit = 100) -> Any:
    """The newest first; at least once, with the same `message` id at every try."""
    return [
        {
            "id": d.id,
            "message": d.message,
            "sink": d.sink,
            "type": d.type,
            "created": iso(d.created_ms),
            "status": d.status,
            "attempts": d.attempts,
            "next_try": iso(d.next_try_ms),
            "http_status": d.http_status,
            "error": d.error,
            "finished": iso(d.finished_ms),
        }
        for d in await ask(hall.store.deliveries(limit=limit))
    ]


@router.post(
    "/{sink}/test",
    response_model=SinkTestOut,
    summary="Send a signed test message now",
    responses=problems("not-found"),
)
async def test_sink(hall: HallDep, who: Operator, sink: Annotated[str, Path(max_length=64)]) -> Any:
    """One try, not repeated; the answer says what the sink said."""
    return asdict(await actions.test_webhook(hall, who, sink))
