"""From the spill file back into the database; each entry may come twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from facility.commands import Mode
from facility.store.records import CycleRecord
from facility.store.rows import alarms as alarm_rows
from facility.store.rows import audit as audit_rows
from facility.store.rows import journal as journal_rows
from facility.store.rows import people
from facility.store.rows.as_json import ack_from_json, decision_from_json, event_from_json
from facility.store.threads.committer import Replay


def replay_of(hall: str) -> Replay:
    """How each kind of spilled entry is written to the journal of a hall."""

    def intent(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        journal_rows.write_intent(connection, hall, decision_from_json(body), checked=False)

    def acks(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        journal_rows.write_acks(connection, hall, [ack_from_json(a) for a in body["acks"]])

    def cycle(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        journal_rows.write_cycle(connection, hall, CycleRecord(**body))

    def alarms(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        for event, names in body["events"]:
            alarm_rows.record(connection, [event_from_json(event)], names)

    def audit(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        audit_rows.replay_audit(connection, **body)

    def release(connection: sa.Connection, body: Mapping[str, Any]) -> None:
        people.set_mode(connection, wanted=Mode.OFF, **body)

    return {
        "intent": intent,
        "acks": acks,
        "cycle": cycle,
        "alarms": alarms,
        "audit": audit,
        "release": release,
    }
