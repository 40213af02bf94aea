"""The routes of the API: thin; parse, ask the hall or the store, shape the answer."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from api.routes import (
    alarms,
    capacity,
    control,
    cords,
    drills,
    events,
    facility,
    history,
    journal,
    maintenance,
    points,
    power,
    webhooks,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    facility.router,
    points.router,
    history.router,
    power.router,
    journal.router,
    control.router,
    maintenance.router,
    capacity.router,
    drills.router,
    cords.router,
    alarms.router,
    webhooks.router,
    events.router,
)
