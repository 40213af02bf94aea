"""What people may change, once, for the API and the page alike; each change is audited.

The audit never stands in the way of `release`: with the database down it is logged instead, and
the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import structlog

from api.hall import Granted, Hall, Refused, Released, SinkTest
from api.routes.deps import ask
from api.security import Principal
from facility.commands import Mode, Override
from facility.points import PointId
from facility.store.errors import StoreError

REASON_MAX: Final = 500
MINUTES_MAX: Final = 24 * 60.0
AUDIT_WAIT_S: Final = 2.0

_log = structlog.get_logger("audit")


async def record(
    hall: Hall, who: Principal, action: str, subject: str, detail: Mapping[str, Any]
) -> bool:
    """Write down who did what; False when only the log could take it."""
    try:
        await ask(hall.store.audit(who.name, action, subject, dict(detail)), AUDIT_WAIT_S)
    except (StoreError, TimeoutError) as error:
        _log.warning(
            "not in the audit", actor=who.name, action=action, subject=subject, error=str(error)
        )
        return False
    return True


async def acknowledge(hall: Hall, who: Principal, key: str, note: str) -> None:
    """Say that a person has seen an alarm and what they do about it.

    Raises:
        UnknownRecord: no such alarm is active.
    """
    await ask(hall.store.acknowledge(key, who.name, note))
    await record(hall, who, "acknowledge", key, {"note": note})


async def hold(
    hall: Hall, who: Principal, point: PointId, value: float, minutes: float, reason: str
) -> Granted:
    """Hold a point at a value for a while.

    Raises:
        Unknown, Refused: see `Hall.add_override`.
    """
    if not (math.isfinite(value) and math.isfinite(minutes) and 0.0 < minutes <= MINUTES_MAX):
        raise Refused(f"minutes must be above 0 and at most {MINUTES_MAX:.0f}", "minutes")
    asked = {"value": value, "minutes": minutes, "reason": reason}
    try:
        granted = await hall.add_override(point, value, minutes, who.name, reason)
    except Refused as error:
        refusal = asked | {"refused": error.reason, "bounded_by": error.bounded_by}
        await record(hall, who, "override refused", str(point), refusal)
        raise
    outcome = asked | {"granted": granted.override.value, "bounded_by": granted.bounded_by}
    await record(hall, who, "override", str(point), outcome)
    return granted


async def end_hold(hall: Hall, who: Principal, override_id: str) -> Override:
    """End an override now.

    Raises:
        Unknown: none in force with this id.
    """
    ended = await hall.cancel_override(override_id, who.name)
    await record(hall, who, "override ended", str(ended.point), {"id": ended.id})
    return ended


async def set_mode(hall: Hall, who: Principal, scope: str, mode: Mode, reason: str) -> None:
    """Change who acts in a scope.

    Raises:
        Unknown, Refused: see `Hall.set_mode`.
    """
    before = hall.modes().get(scope)
    await hall.set_mode(scope, mode, who.name, reason)
    detail = {"from": before.value if before else None, "to": mode.value, "reason": reason}
    await record(hall, who, "mode", scope, detail)


async def release(hall: Hall, who: Principal, scope: str, reason: str) -> tuple[Released, bool]:
    """Give a scope back to local control; the second answer is whether the audit has it.

    Raises:
        Unknown: no such scope.
    """
    released = await hall.release(scope, who.name, reason)
    detail = {"reason": reason, "moves_w": released.moves_w}
    return released, await record(hall, who, "release", scope, detail)


async def test_webhook(hall: Hall, who: Principal, sink: str) -> SinkTest:
    """Send one test message to a sink.

    Raises:
        Unknown: no such sink.
    """
    result = await hall.test_webhook(sink)
    detail = {"delivered": result.delivered, "http_status": result.http_status}
    await record(hall, who, "webhook test", sink, detail)
    return result
