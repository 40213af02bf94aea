"""What was decided and why, and who did what."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query

from api.hall import Unknown
from api.picture import finite, iso
from api.problems import Problem
from api.routes.deps import HallDep, ask, needs, problems
from api.routes.schemas import AuditOut, DecisionOut
from api.security import Role
from facility.commands import AlarmEvent, Decision
from facility.kinds import KINDS
from facility.store.records import CommandRecord, DecisionRecord

router = APIRouter(
    tags=["journal"], dependencies=[Depends(needs(Role.VIEWER))], responses=problems("unavailable")
)

ID_MAX: Final = 2**63 - 1
Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=1, le=ID_MAX, description="only smaller ids")]


def alarm_event(event: AlarmEvent) -> dict[str, Any]:
    """One change of an alarm, for JSON."""
    return {
        "key": event.key,
        "kind": event.kind,
        "subject": event.subject,
        "severity": event.severity.name.lower(),
        "active": event.active,
        "page": event.page,
        "parent": event.parent,
        "text": event.text,
        "at": iso(event.at_ms),
        "numbers": finite(event.numbers),
    }


def _end(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _command(record: CommandRecord) -> dict[str, Any]:
    command = record.command
    return {
        "point": str(command.point),
        "value": command.value,
        "unit": KINDS[command.point.kind].unit,
        "sequence": command.sequence,
        "issued": iso(command.issued_ms),
        "raises": command.raises,
        "because": command.because,
        "outcome": record.outcome.value if record.outcome is not None else None,
        "actual": record.actual,
        "detail": record.detail,
    }


def decision_json(
    decision: Decision, record: DecisionRecord | None, *, facts: bool
) -> dict[str, Any]:
    """One decision; of a journalled one also what became of its commands."""
    commands = (
        record.commands
        if record is not None
        else tuple(CommandRecord(command, 0) for command in decision.commands)
    )
    return {
        "id": record.id if record is not None else None,
        "epoch": record.epoch if record is not None else None,
        "cycle": decision.cycle,
        "at": iso(decision.now_ms),
        "snapshot": decision.snapshot,
        "last_scan": decision.last_scan,
        "config_sha256": decision.config_sha256,
        "setpoints": [
            {
                "point": str(s.point),
                "value": s.value,
                "unit": KINDS[s.point.kind].unit,
                "low": _end(s.room.low),
                "high": _end(s.room.high),
                "because": s.because,
                "conflict": s.conflict,
                "rank": s.rank.name.lower(),
            }
            for s in decision.setpoints
        ],
        "commands": [_command(c) for c in commands],
        "withheld": [
            {"point": str(p), "value": v, "unit": KINDS[p.kind].unit, "reason": why}
            for p, v, why in decision.withheld
        ],
        "alarms": [alarm_event(event) for event in decision.alarms],
        "facts": finite(decision.facts) if facts else None,
    }


@router.get("/decisions", response_model=list[DecisionOut], summary="Journalled decisions")
async def decisions(
    hall: HallDep,
    limit: Limit = 50,
    before: Before = None,
    subject: Annotated[
        str | None, Query(description="device, or device:part:kind", max_length=200)
    ] = None,
) -> Any:
    """The newest first; those that sent commands (or raised alarms) are in the journal."""
    found = await ask(hall.store.decisions(limit=limit, before=before, subject=subject))
    return [decision_json(record.decision, record, facts=False) for record in found]


@router.get("/decisions/latest", response_model=DecisionOut, summary="The last finished cycle")
async def latest(hall: HallDep) -> Any:
    """From memory: works with the database down."""
    decision = hall.decision()
    if decision is None:
        raise Problem("unavailable", "no cycle has finished yet")
    return decision_json(decision, None, facts=True)


@router.get(
    "/decisions/{id}",
    response_model=DecisionOut,
    summary="One journalled decision",
    responses=problems("not-found"),
)
async def one_decision(
    hall: HallDep, number: Annotated[int, Path(alias="id", ge=1, le=ID_MAX)]
) -> Any:
    record = await ask(hall.store.decision(number))
    if record is None:
        raise Unknown(f"no decision {number} in the journal")
    return decision_json(record.decision, record, facts=True)


@router.get("/audit", response_model=list[AuditOut], summary="Who did what")
async def audit(hall: HallDep, limit: Limit = 100, before: Before = None) -> Any:
    """Every change made by people and keys, the newest first."""
    found = await ask(hall.store.audit_log(limit=limit, before=before))
    return [
        {
            "id": entry.id,
            "at": iso(entry.at_ms),
            "actor": entry.actor,
            "action": entry.action,
            "subject": entry.subject,
            "detail": finite(entry.detail),
        }
        for entry in found
    ]
