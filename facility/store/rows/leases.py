"""One active controller per hall: a lease row whose epoch rises with every take-over."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from facility.store.records import LeaseRecord
from facility.store.rows.tables import lease

#: No two machines that control one hall have clocks that far apart.
_STRANGE_MS: Final = 3_600_000


def acquire(
    connection: sa.Connection, hall: str, owner: str, now_ms: int, ttl_s: float
) -> int | None:
    """Take the hall if it is free, expired or already ours; returns the new epoch or None.

    One statement, so that of two that try at once one gets it. An owner that takes its own lease
    again (it crashed and came back) gets a new epoch too: its sequences start anew. A lease that
    ends in more than an hour beyond the usual was made by a clock that was ahead and has been set
    back since, or by a machine of another time: it would bar everybody until then, so it is free.
    Who made it is fenced off by the epoch.
    """
    epoch: int | None = connection.execute(
        sa.text(
            "INSERT INTO lease (hall, owner, epoch, expires_ms) VALUES (:hall, :owner, 1, :until) "
            "ON CONFLICT (hall) DO UPDATE SET owner = excluded.owner, epoch = lease.epoch + 1, "
            "expires_ms = excluded.expires_ms "
            "WHERE lease.expires_ms <= :now OR lease.owner = excluded.owner "
            "OR lease.expires_ms > :strange RETURNING epoch"
        ),
        {
            "hall": hall,
            "owner": owner,
            "now": now_ms,
            "until": now_ms + round(ttl_s * 1000),
            "strange": now_ms + round(ttl_s * 1000) + _STRANGE_MS,
        },
    ).scalar_one_or_none()
    return epoch


def renew(
    connection: sa.Connection, hall: str, owner: str, epoch: int, now_ms: int, ttl_s: float
) -> bool:
    """Prolong a lease that has not ended; False if it has, or another epoch holds the hall."""
    done = connection.execute(
        sa.update(lease)
        .where(
            lease.c.hall == hall,
            lease.c.owner == owner,
            lease.c.epoch == epoch,
            lease.c.expires_ms > now_ms,
        )
        .values(expires_ms=now_ms + round(ttl_s * 1000))
    )
    return done.rowcount == 1


def release(connection: sa.Connection, hall: str, owner: str, epoch: int, now_ms: int) -> bool:
    """End a lease now; the row stays, so that the epoch never falls."""
    done = connection.execute(
        sa.update(lease)
        .where(lease.c.hall == hall, lease.c.owner == owner, lease.c.epoch == epoch)
        .values(expires_ms=now_ms)
    )
    return done.rowcount == 1


def read(connection: sa.Connection, hall: str) -> LeaseRecord | None:
    """Who holds the hall, or held it last."""
    row = connection.execute(sa.select(lease).where(lease.c.hall == hall)).one_or_none()
    return None if row is None else LeaseRecord(row.hall, row.owner, row.epoch, row.expires_ms)
