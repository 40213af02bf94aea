"""The schema. Times are UTC milliseconds in 64-bit integers; bodies are packed JSON."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: A permanent number; on SQLite it must be INTEGER to be the rowid itself.
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", _Id, primary_key=True, autoincrement=True)


def _ms(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _text(name: str, *, nullable: bool = False, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable, primary_key=primary_key)


site_meta = sa.Table("site_meta", metadata, _text("key", primary_key=True), _text("value"))

# ---- samples -----------------------------------------------------------------------------------

point = sa.Table("point", metadata, _id(), sa.Column("ref", sa.Text, nullable=False, unique=True))

layout = sa.Table(
    "layout",
    metadata,
    _id(),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("device", sa.Text, nullable=False, index=True),
    _text("poll_class"),
    sa.Column("point_ids", sa.LargeBinary, nullable=False),  # int64 little-endian, in order
)

# Raw scans until they are compacted. Clustered by layout, so that the scans of one layout and hour
# lie side by side: they are read and deleted together. The key makes a scan of the same layout
# and time replace the one before. No foreign key: layouts are never deleted, and a check per scan
# would double the work on PostgreSQL.
scan = sa.Table(
    "scan",
    metadata,
    sa.Column("layout_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("source_ms", sa.BigInteger, primary_key=True, autoincrement=False),
    _ms("received_ms"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    postgresql_partition_by="RANGE (source_ms)",
)

# One hour (UTC) of one layout in columns; see facility.store.chunks for `head` and `body`. On
# PostgreSQL both tables have a partition per UTC day; see facility.store.rows.partitions.
chunk = sa.Table(
    "chunk",
    metadata,
    sa.Column("layout_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("hour_ms", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("scans", sa.Integer, nullable=False),
    _ms("first_ms"),
    _ms("last_ms"),
    # Rises by one whenever late data reopens the chunk.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index(None, "hour_ms"),
    postgresql_partition_by="RANGE (hour_ms)",
)


def _rollup(name: str) -> sa.Table:
    """A row for each point and bucket that held a sample, of one resolution.

    The columns stand in the order that wastes no byte on PostgreSQL.
    """
    of_good = ("total", "minimum", "maximum", "first", "last")  # NULL without a GOOD sample
    return sa.Table(
        name,
        metadata,
        sa.Column("start_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(column, sa.Double, nullable=True) for column in of_good),
        # Of counters only. `delta`: what was counted since the last GOOD sample before; `inside`:
        # the part of it between `first`, taken at `first_ms`, and `last`.
        sa.Column("delta", sa.Double, nullable=True),
        sa.Column("inside", sa.Double, nullable=True),
        _ms("first_ms", nullable=True),
        _ms("last_ms", nullable=True),
        sa.Column("point_id", sa.Integer, primary_key=True, autoincrement=False),
        # Samples of any grade; of these, GOOD and SUSPECT.
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("good", sa.Integer, nullable=False),
        sa.Column("suspect", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("point_id", "start_ms"),
        sqlite_with_rowid=False,
    )


#: Quarters of an hour.
rollup_15m = _rollup("rollup_15m")
#: Days of the site; `inside`, `first_ms` and `last_ms` stay NULL.
rollup_1d = _rollup("rollup_1d")

dropped = sa.Table(
    "dropped",
    metadata,
    _id(),
    _ms("from_ms"),
    _ms("to_ms"),
    sa.Column("scans", sa.BigInteger, nullable=False),
    sa.Column("samples", sa.BigInteger, nullable=False),
    _text("reason"),
)

# ---- journal -----------------------------------------------------------------------------------

decision = sa.Table(
    "decision",
    metadata,
    _id(),
    _text("hall"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("cycle", sa.BigInteger, nullable=False),
    _ms("now_ms"),
    _text("config_sha256"),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("hall", "epoch", "cycle"),
)

intent = sa.Table(
    "intent",
    metadata,
    _id(),
    sa.Column("decision_id", _Id, sa.ForeignKey("decision.id"), nullable=False, index=True),
    _text("hall"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("device", sa.Text, nullable=False, index=True),
    sa.Column("point", sa.Text, nullable=False, index=True),
    sa.Column("value", sa.Double, nullable=False),
    _ms("issued_ms"),
    sa.Column("deadline_s", sa.Double, nullable=False),
    _text("because"),
    sa.Column("raises", sa.Boolean, nullable=False),
    # 1 once an ack stands in `ack`; kept here so that the few without one are found at once.
    sa.Column("acked", sa.SmallInteger, nullable=False),
    sa.UniqueConstraint("hall", "epoch", "sequence", "point"),
    sa.Index(
        "ix_intent_pending",
        "id",
        sqlite_where=sa.text("acked = 0"),
        postgresql_where=sa.text("acked = 0"),
    ),
)

ack = sa.Table(
    "ack",
    metadata,
    _id(),
    _text("hall"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    _text("point"),
    _text("outcome"),
    sa.Column("actual", sa.Double, nullable=True),
    _text("detail"),
    _ms("at_ms"),
    sa.UniqueConstraint("hall", "epoch", "sequence", "point"),
)

cycle = sa.Table(
    "cycle",
    metadata,
    _id(),
    _text("hall"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("cycle", sa.BigInteger, nullable=False),
    sa.Column("now_ms", sa.BigInteger, nullable=False, index=True),
    sa.Column("last_scan", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("hall", "epoch", "cycle"),
)

lease = sa.Table(
    "lease",
    metadata,
    _text("hall", primary_key=True),
    _text("owner"),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    _ms("expires_ms"),
)

# ---- alarms and deliveries ---------------------------------------------------------------------

alarm = sa.Table(
    "alarm",
    metadata,
    _text("key", primary_key=True),
    sa.Column("active", sa.Boolean, nullable=False, index=True),
    _text("event"),  # JSON of the last change
    _ms("since_ms"),
    _ms("changed_ms"),
    _ms("cleared_ms", nullable=True),
    _text("acknowledged_by", nullable=True),
    _text("note", nullable=True),
    _ms("acknowledged_ms", nullable=True),
)

alarm_change = sa.Table(
    "alarm_change",
    metadata,
    _id(),
    _text("key"),
    _text("change"),
    _ms("at_ms"),
    _text("text"),
    sa.Column("page", sa.Boolean, nullable=False),
    _text("by_whom", nullable=True),
    _text("note", nullable=True),
    # What makes telling the same event twice (a replay after a crash) harmless.
    sa.UniqueConstraint("key", "at_ms", "change"),
)

outbox = sa.Table("outbox", metadata, _id(), _text("type"), _text("body"), _ms("created_ms"))

delivery = sa.Table(
    "delivery",
    metadata,
    _id(),
    sa.Column("outbox_id", _Id, sa.ForeignKey("outbox.id"), nullable=False, index=True),
    _text("sink"),
    _text("status"),
    sa.Column("attempts", sa.Integer, nullable=False),
    _ms("next_try_ms", nullable=True),  # for a claimed one: when its claim ends
    sa.Column("http_status", sa.Integer, nullable=True),
    _text("error", nullable=True),
    _ms("finished_ms", nullable=True),
    sa.Index(
        "ix_delivery_due",
        "next_try_ms",
        sqlite_where=sa.text("next_try_ms IS NOT NULL"),
        postgresql_where=sa.text("next_try_ms IS NOT NULL"),
    ),
)

# ---- people ------------------------------------------------------------------------------------

audit = sa.Table(
    "audit",
    metadata,
    _id(),
    _ms("at_ms"),
    _text("actor"),
    _text("action"),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    _text("detail"),
    # Chains it to the line before; see facility.store.rows.audit.
    sa.Column("hash", sa.Text, nullable=False, server_default=""),
)

override = sa.Table(
    "override",
    metadata,
    _text("id", primary_key=True),
    _text("point"),
    sa.Column("value", sa.Double, nullable=False),
    _text("by_whom"),
    _text("reason"),
    _ms("since_ms"),
    sa.Column("until_ms", sa.BigInteger, nullable=False, index=True),
    _ms("ended_ms", nullable=True),
    _text("ended_by", nullable=True),
)

maintenance = sa.Table(
    "maintenance",
    metadata,
    _text("id", primary_key=True),
    _text("kind"),
    _text("subject"),
    _text("by_whom"),
    _text("reason"),
    _text("ticket"),
    _ms("since_ms"),
    sa.Column("until_ms", sa.BigInteger, nullable=False, index=True),
    _text("freeze"),  # JSON list of scopes
    _text("accepted"),  # JSON list of kinds of consequences
    _ms("ended_ms", nullable=True),
    _text("ended_by", nullable=True),
)

drill = sa.Table(
    "drill",
    metadata,
    _text("id", primary_key=True),
    _text("element"),
    _text("by_whom"),
    _text("reason"),
    sa.Column("started_ms", sa.BigInteger, nullable=False, index=True),
    _ms("ended_ms", nullable=True),
    _text("state"),
    _text("report"),  # JSON
)

cord_drill = sa.Table(
    "cord_drill",
    metadata,
    _text("id", primary_key=True),
    _text("load"),
    _text("feed"),
    _text("parent"),
    _text("by_whom"),
    _text("reason"),
    sa.Column("started_ms", sa.BigInteger, nullable=False, index=True),
    _ms("until_ms"),
    _text("config_sha256"),
    _ms("ended_ms", nullable=True),
    _text("state"),
    _text("evidence"),  # JSON
)

mode = sa.Table(
    "mode",
    metadata,
    _text("scope", primary_key=True),
    _text("mode"),
    _text("by_whom"),
    _text("reason"),
    _ms("since_ms"),
)

api_key = sa.Table(
    "api_key",
    metadata,
    _id(),
    _text("name"),
    _text("role"),
    _text("hash"),
    _ms("created_ms"),
    _ms("revoked_ms", nullable=True),
)
