"""Everything that the first release wrote is read by this one as it was told."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa

from facility.commands import Mode
from facility.store import check, migrate, open_store, upgrade
from facility.store.engine import writing_engine
from facility.store.rows.as_json import decision_to_json, dumps, event_to_json, packed
from tests.facility.store.plant import (
    START_MS,
    SteppedClock,
    ack,
    alarm,
    command,
    decision,
    layout,
    scan,
)

PDU = layout()
SENT = command(sequence=5)
OPEN = command("n02", sequence=6)


def rows() -> dict[str, list[dict[str, Any]]]:
    """What stood in each table of the first release."""
    one = decision(3, SENT, OPEN)
    intents = [
        {
            "decision_id": 1,
            "hall": "hall",
            "epoch": c.epoch,
            "sequence": c.sequence,
            "device": c.point.device,
            "point": str(c.point),
            "value": c.value,
            "issued_ms": c.issued_ms,
            "deadline_s": c.deadline_s,
            "because": c.because,
            "raises": c.raises,
            "acked": int(c is SENT),
        }
        for c in (SENT, OPEN)
    ]
    told = ack(SENT)
    event = alarm()
    return {
        "site_meta": [{"key": "run", "value": "stopped"}],
        "point": [{"id": i + 1, "ref": str(p.id)} for i, p in enumerate(PDU.points)],
        "layout": [
            {
                "id": 1,
                "key": PDU.key,
                "device": "pdu-1",
                "poll_class": "fast",
                "point_ids": np.arange(1, 5, dtype="<i8").tobytes(),
            }
        ],
        "scan": [
            {
                "layout_id": 1,
                "source_ms": START_MS + 1000 * n,
                "received_ms": START_MS + n,
                "data": bytes((3,)) + np.array([n, 1, 2, 3], dtype="<f4").tobytes(),
            }
            for n in range(30)
        ],
        "dropped": [{"from_ms": 1, "to_ms": 2, "scans": 3, "samples": 12, "reason": "queue full"}],
        "decision": [
            {
                "id": 1,
                "hall": "hall",
                "epoch": 1,
                "cycle": 3,
                "now_ms": one.now_ms,
                "config_sha256": one.config_sha256,
                "body": packed(decision_to_json(one)),
            }
        ],
        "intent": intents,
        "ack": [
            {
                "hall": "hall",
                "epoch": 1,
                "sequence": 5,
                "point": str(SENT.point),
                "outcome": told.outcome.value,
                "actual": told.actual,
                "detail": "",
                "at_ms": told.at_ms,
            }
        ],
        "cycle": [
            {
                "hall": "hall",
                "epoch": 1,
                "cycle": 3,
                "now_ms": START_MS,
                "last_scan": 30,
                "body": packed({"x": 1}),
            }
        ],
        "lease": [{"hall": "hall", "owner": "me", "epoch": 7, "expires_ms": START_MS}],
        "alarm": [
            {
                "key": event.key,
                "active": True,
                "event": dumps(event_to_json(event)),
                "since_ms": START_MS,
                "changed_ms": START_MS,
            }
        ],
        "alarm_change": [
            {
                "key": event.key,
                "change": "raised",
                "at_ms": START_MS,
                "text": event.text,
                "page": True,
            }
        ],
        "outbox": [{"id": 1, "type": "alarm.raised", "body": "{}", "created_ms": START_MS}],
        "delivery": [
            {
                "outbox_id": 1,
                "sink": "pager",
                "status": "pending",
                "attempts": 0,
                "next_try_ms": START_MS,
            }
        ],
        "audit": [
            {
                "at_ms": START_MS + n,
                "actor": "ada",
                "action": "mode.set",
                "subject": "hall",
                "detail": dumps({"n": n}),
            }
            for n in range(5)
        ],
        "override": [
            {
                "id": "o1",
                "point": str(SENT.point),
                "value": 300.0,
                "by_whom": "ada",
                "reason": "tests",
                "since_ms": START_MS,
                "until_ms": START_MS + 60_000,
            }
        ],
        "mode": [
            {
                "scope": "hall",
                "mode": "auto",
                "by_whom": "ada",
                "reason": "trusted",
                "since_ms": START_MS,
            }
        ],
        "api_key": [{"name": "kim", "role": "viewer", "hash": "$argon2$", "created_ms": START_MS}],
    }


def fill(url: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        migrate.upgrade_on(connection, "0001")
        found = sa.MetaData()
        found.reflect(connection)
        told = rows()
        assert set(told) == set(found.tables) - {"alembic_version"}, "every table has a row"
        for table in found.sorted_tables:
            if table.name in told:
                connection.execute(sa.insert(table), told[table.name])
    engine.dispose()


def assert_all_is_there(url: str) -> None:
    store = open_store(url, SteppedClock(), inline=True)
    (record,) = store.decisions().result()
    assert record.decision == decision(3, SENT, OPEN)
    assert [c.outcome for c in record.commands] == [ack(SENT).outcome, None]
    assert [p.command for p in store.pending_intents().result()] == [OPEN]
    assert len(store.cycles(0, START_MS + 1).result()) == 1
    assert [a.event for a in store.alarms().result()] == [alarm()]
    assert [c.change for c in store.alarm_changes().result()] == ["raised"]
    assert [d.status for d in store.deliveries().result()] == ["pending"]
    assert [e.detail["n"] for e in store.audit_log().result()] == [4, 3, 2, 1, 0]
    assert [o.override.id for o in store.overrides().result()] == ["o1"]
    assert {m.scope: m.mode for m in store.modes().result()} == {"hall": Mode.AUTO}
    assert [k.name for k in store.api_keys().result()] == ["kim"]
    assert [d.scans for d in store.dropped().result()] == [3]
    assert store.meta("run").result() == "stopped"
    lease = store.lease("hall").result()
    assert lease is not None
    assert lease.epoch == 7
    got = store.history(PDU.points[0].id, START_MS, START_MS + 60_000).result()
    assert got.mean.tolist() == [float(n) for n in range(30)]
    store.close()


def test_everything_is_there_after_up_down_and_up(url: str) -> None:
    fill(url)
    upgrade(url)
    assert check(url) == []
    assert_all_is_there(url)
    engine = writing_engine(url)
    with engine.begin() as connection:
        migrate.downgrade_on(connection, "0001")
    engine.dispose()
    upgrade(url)
    assert check(url) == []
    assert_all_is_there(url)
    store = open_store(url, SteppedClock(START_MS + 1), inline=True)
    store.put(scan(PDU, [30.0, 1.0, 2.0, 3.0], at_ms=START_MS + 30_000))
    store.audit("bob", "look", "hall").result()
    store.journal_acks([ack(OPEN)]).result()
    assert store.pending_intents().result() == []
    assert store.acquire_lease("hall", "you", 5.0).result() == 8
    store.close()
    assert check(url) == []
