"""What a service did, in numbers: written at its end, read together with its database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from api.service.service import Service
from api.service.timings import cycle_milliseconds
from facility.clock import SystemClock
from facility.commands import Outcome
from facility.store import open_store
from facility.store.records import Counts

ACCOUNT = "account.json"


def own_account(service: Service) -> dict[str, Any]:
    """What only the running service knows: cycle times, device states, points."""
    states = [device.state for device in service.devices()]
    good = sum(state == "good" for state in states)
    took = cycle_milliseconds(service.loop.stats.cycle_ms)
    return {
        "cycle_ms": {name: took.get(name) for name in ("p50", "p99", "max")},
        "devices": {"total": len(states), "good": good, "bad": len(states) - good},
        "points": len(service.table),
    }


def write_account(state: Path, service: Service) -> None:
    """Leave the account where `read_account` finds it."""
    (state / ACCOUNT).write_text(json.dumps(own_account(service)), "utf-8")


def read_account(url: str, state: str) -> dict[str, Any]:
    """The account of a service that has ended, with the totals of its database."""
    own = json.loads((Path(state) / ACCOUNT).read_text("utf-8"))
    store = open_store(url, SystemClock())
    try:
        counts = store.counts().result()
    finally:
        store.close()
    return {**own, **totals(counts)}


def totals(counts: Counts) -> dict[str, Any]:
    """The database's part: cycles, samples, caps, alarms, webhooks."""
    commands = counts.commands
    ended = {outcome.value: commands.get(outcome.value, 0) for outcome in Outcome}
    deliveries = counts.deliveries
    return {
        "cycles": counts.cycles,
        "samples_stored": counts.samples,
        "caps": {"commands": sum(commands.values()), **ended},
        "alarms": {
            "raised": counts.alarms_raised,
            "cleared": counts.alarms_cleared,
            "active": counts.alarms_active,
            "pages": counts.pages,
        },
        "webhooks": {
            "queued": sum(deliveries.values()),
            "delivered": deliveries.get("delivered", 0),
            "failed": deliveries.get("failed", 0),
        },
    }
