"""The journal: decisions with their commands before they are sent, acks after, cycle records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from facility.commands import Ack, Command, Decision, Outcome
from facility.points import PointId
from facility.store.errors import LeaseLost
from facility.store.records import CommandRecord, CycleRecord, DecisionRecord
from facility.store.rows.as_json import decision_from_json, decision_to_json, packed, unpacked
from facility.store.rows.tables import ack, cycle, decision, intent, lease


def _epoch_of(connection: sa.Connection, hall: str, made: Decision) -> int:
    """The epoch of a decision: that of its commands; without any, the hall's present one."""
    if made.commands:
        return made.commands[0].epoch
    held = connection.execute(
        sa.select(lease.c.epoch).where(lease.c.hall == hall)
    ).scalar_one_or_none()
    return 0 if held is None else int(held)


def check_epoch(connection: sa.Connection, hall: str, epoch: int) -> None:
    """Refuse an epoch that a later one has taken the hall from.

    The row is locked, so that a take-over comes before or after the intent, never between.

    Raises:
        LeaseLost: it has.
    """
    held = connection.execute(
        sa.select(lease.c.epoch, lease.c.owner).where(lease.c.hall == hall).with_for_update()
    ).one_or_none()
    if held is not None and held.epoch > epoch:
        raise LeaseLost(f"{hall}: epoch {epoch} has been followed by {held.epoch} ({held.owner})")


def write_intent(connection: sa.Connection, hall: str, made: Decision, *, checked: bool) -> None:
    """Journal a decision and its commands; the same one twice is written once.

    If `checked`, a decision of a lost epoch is refused; a replay tells of the past, and is not.
    """
    epoch = _epoch_of(connection, hall, made)
    if checked and made.commands:
        check_epoch(connection, hall, epoch)
    number = connection.execute(
        sa.text(
            "INSERT INTO decision (hall, epoch, cycle, now_ms, config_sha256, body) "
            "VALUES (:hall, :epoch, :cycle, :now_ms, :sha, :body) "
            "ON CONFLICT (hall, epoch, cycle) DO NOTHING RETURNING id"
        ),
        {
            "hall": hall,
            "epoch": epoch,
            "cycle": made.cycle,
            "now_ms": made.now_ms,
            "sha": made.config_sha256,
            "body": packed(decision_to_json(made)),
        },
    ).scalar_one_or_none()
    if number is None or not made.commands:
        return
    connection.execute(
        sa.insert(intent),
        [
            {
                "decision_id": number,
                "hall": hall,
                "epoch": c.epoch,
                "sequence": c.sequence,
                "device": c.point.device,
                "point": str(c.point),
                "value": c.value,
                "issued_ms": c.issued_ms,
                "deadline_s": c.deadline_s,
                "because": c.because,
                "raises": c.raises,
                "acked": 0,
            }
            for c in made.commands
        ],
    )


def write_acks(connection: sa.Connection, hall: str, acks: Sequence[Ack]) -> None:
    """Journal the ends of commands; the first end of a command stands."""
    if not acks:
        return
    identities = [
        {
            "hall": hall,
            "epoch": a.command.epoch,
            "sequence": a.command.sequence,
            "point": str(a.command.point),
        }
        for a in acks
    ]
    connection.execute(
        sa.text(
            "INSERT INTO ack (hall, epoch, sequence, point, outcome, actual, detail, at_ms) "
            "VALUES (:hall, :epoch, :sequence, :point, :outcome, :actual, :detail, :at_ms) "
            "ON CONFLICT (hall, epoch, sequence, point) DO NOTHING"
        ),
        [
            {
                **identity,
                "outcome": a.outcome.value,
                "actual": a.actual,
                "detail": a.detail,
                "at_ms": a.at_ms,
            }
            for identity, a in zip(identities, acks, strict=True)
        ],
    )
    connection.execute(
        sa.text(
            "UPDATE intent SET acked = 1 WHERE hall = :hall AND epoch = :epoch "
            "AND sequence = :sequence AND point = :point"
        ),
        identities,
    )


def write_cycle(connection: sa.Connection, hall: str, record: CycleRecord) -> None:
    """Journal what a cycle needs to be computed again."""
    connection.execute(
        sa.text(
            "INSERT INTO cycle (hall, epoch, cycle, now_ms, last_scan, body) "
            "VALUES (:hall, :epoch, :cycle, :now_ms, :last_scan, :body) "
            "ON CONFLICT (hall, epoch, cycle) DO NOTHING"
        ),
        {
            "hall": hall,
            "epoch": record.epoch,
            "cycle": record.cycle,
            "now_ms": record.now_ms,
            "last_scan": record.last_scan,
            "body": packed(record.body),
        },
    )


def read_cycles(
    connection: sa.Connection, hall: str, from_ms: int, to_ms: int, after: int, limit: int
) -> list[tuple[int, CycleRecord]]:
    """(id, record) of cycles in [from_ms, to_ms) by id; `after` is the last id already read."""
    rows = connection.execute(
        sa.select(cycle)
        .where(
            cycle.c.hall == hall,
            cycle.c.now_ms >= from_ms,
            cycle.c.now_ms < to_ms,
            cycle.c.id > after,
        )
        .order_by(cycle.c.id)
        .limit(limit)
    )
    return [
        (r.id, CycleRecord(r.epoch, r.cycle, r.now_ms, r.last_scan, unpacked(r.body))) for r in rows
    ]


def _command_record(row: Any) -> CommandRecord:
    command = Command(
        PointId.parse(row.point),
        row.value,
        row.sequence,
        row.epoch,
        row.issued_ms,
        row.deadline_s,
        row.because,
        row.raises,
    )
    return CommandRecord(
        command,
        row.decision_id,
        Outcome(row.outcome) if row.outcome is not None else None,
        row.actual,
        row.detail or "",
        row.at_ms,
    )


def _commands() -> sa.Select[Any]:
    same = sa.and_(
        ack.c.hall == intent.c.hall,
        ack.c.epoch == intent.c.epoch,
        ack.c.sequence == intent.c.sequence,
        ack.c.point == intent.c.point,
    )
    return (
        sa.select(intent, ack.c.outcome, ack.c.actual, ack.c.detail, ack.c.at_ms)
        .select_from(intent.outerjoin(ack, same))
        .order_by(intent.c.id)
    )


def pending_intents(connection: sa.Connection, hall: str) -> list[CommandRecord]:
    """Commands whose end nobody journalled: to be resolved by read-back at start."""
    asked = _commands().where(sa.text("intent.acked = 0"), intent.c.hall == hall)
    return [_command_record(row) for row in connection.execute(asked)]


def _records(connection: sa.Connection, rows: Sequence[Any]) -> list[DecisionRecord]:
    commands: dict[int, list[CommandRecord]] = {row.id: [] for row in rows}
    if rows:
        asked = _commands().where(intent.c.decision_id.in_(list(commands)))
        for row in connection.execute(asked):
            commands[row.decision_id].append(_command_record(row))
    return [
        DecisionRecord(
            row.id, row.epoch, decision_from_json(unpacked(row.body)), tuple(commands[row.id])
        )
        for row in rows
    ]


def decisions(
    connection: sa.Connection, hall: str, limit: int, before: int | None, subject: str | None
) -> list[DecisionRecord]:
    """The newest journalled decisions, newest first.

    Only those with an id below `before`; only those that command `subject`, a device or a point
    (`device:part:kind`).
    """
    asked = sa.select(decision).where(decision.c.hall == hall)
    if before is not None:
        asked = asked.where(decision.c.id < before)
    if subject is not None:
        column = intent.c.point if ":" in subject else intent.c.device
        asked = asked.where(
            decision.c.id.in_(sa.select(intent.c.decision_id).where(column == subject))
        )
    rows = connection.execute(asked.order_by(decision.c.id.desc()).limit(limit)).all()
    return _records(connection, rows)


def decision_by_id(connection: sa.Connection, number: int) -> DecisionRecord | None:
    """One journalled decision, or None."""
    rows = connection.execute(sa.select(decision).where(decision.c.id == number)).all()
    found = _records(connection, rows)
    return found[0] if found else None
