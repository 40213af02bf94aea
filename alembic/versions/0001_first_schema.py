"""The first schema: samples, journal, alarms and outbox, people."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Whoever may write to the database may still not rewrite who did what.
SQLITE_APPEND_ONLY = """
CREATE TRIGGER audit_no_{event} BEFORE {event} ON audit
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
"""
POSTGRESQL_APPEND_ONLY = """
CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'audit is append-only'; END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION audit_append_only()
"""


def upgrade() -> None:
    op.create_table(
        "ack",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("hall", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("actual", sa.Double(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ack")),
        sa.UniqueConstraint(
            "hall", "epoch", "sequence", "point", name=op.f("uq_ack_hall_epoch_sequence_point")
        ),
    )
    op.create_table(
        "alarm",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("cleared_ms", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("acknowledged_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alarm")),
    )
    op.create_index(op.f("ix_alarm_active"), "alarm", ["active"], unique=False)
    op.create_table(
        "alarm_change",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("page", sa.Boolean(), nullable=False),
        sa.Column("by_whom", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alarm_change")),
        sa.UniqueConstraint(
            "key", "at_ms", "change", name=op.f("uq_alarm_change_key_at_ms_change")
        ),
    )
    op.create_table(
        "api_key",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("revoked_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_subject"), "audit", ["subject"], unique=False)
    op.create_table(
        "cycle",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("hall", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("cycle", sa.BigInteger(), nullable=False),
        sa.Column("now_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_scan", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cycle")),
        sa.UniqueConstraint("hall", "epoch", "cycle", name=op.f("uq_cycle_hall_epoch_cycle")),
    )
    op.create_index(op.f("ix_cycle_now_ms"), "cycle", ["now_ms"], unique=False)
    op.create_table(
        "decision",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("hall", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("cycle", sa.BigInteger(), nullable=False),
        sa.Column("now_ms", sa.BigInteger(), nullable=False),
        sa.Column("config_sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
        sa.UniqueConstraint("hall", "epoch", "cycle", name=op.f("uq_decision_hall_epoch_cycle")),
    )
    op.create_table(
        "dropped",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("from_ms", sa.BigInteger(), nullable=False),
        sa.Column("to_ms", sa.BigInteger(), nullable=False),
        sa.Column("scans", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dropped")),
    )
    op.create_table(
        "layout",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("poll_class", sa.Text(), nullable=False),
        sa.Column("point_ids", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_layout")),
        sa.UniqueConstraint("key", name=op.f("uq_layout_key")),
    )
    op.create_index(op.f("ix_layout_device"), "layout", ["device"], unique=False)
    op.create_table(
        "lease",
        sa.Column("hall", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hall", name=op.f("pk_lease")),
    )
    op.create_table(
        "mode",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("by_whom", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_mode")),
    )
    op.create_table(
        "outbox",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "override",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("by_whom", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_override")),
    )
    op.create_index(op.f("ix_override_until_ms"), "override", ["until_ms"], unique=False)
    op.create_table(
        "point",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_point")),
        sa.UniqueConstraint("ref", name=op.f("uq_point_ref")),
    )
    op.create_table(
        "scan",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("layout_id", sa.Integer(), nullable=False),
        sa.Column("source_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scan")),
    )
    op.create_index(
        op.f("ix_scan_layout_id_source_ms"), "scan", ["layout_id", "source_ms"], unique=False
    )
    op.create_table(
        "site_meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_site_meta")),
    )
    op.create_table(
        "delivery",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "outbox_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_ms", sa.BigInteger(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["outbox_id"], ["outbox.id"], name=op.f("fk_delivery_outbox_id_outbox")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    op.create_index(
        "ix_delivery_due",
        "delivery",
        ["next_try_ms"],
        unique=False,
        sqlite_where=sa.text("next_try_ms IS NOT NULL"),
        postgresql_where=sa.text("next_try_ms IS NOT NULL"),
    )
    op.create_index(op.f("ix_delivery_outbox_id"), "delivery", ["outbox_id"], unique=False)
    op.create_table(
        "intent",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "decision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("hall", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("point", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("issued_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_s", sa.Double(), nullable=False),
        sa.Column("because", sa.Text(), nullable=False),
        sa.Column("raises", sa.Boolean(), nullable=False),
        sa.Column("acked", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decision.id"], name=op.f("fk_intent_decision_id_decision")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intent")),
        sa.UniqueConstraint(
            "hall", "epoch", "sequence", "point", name=op.f("uq_intent_hall_epoch_sequence_point")
        ),
    )
    op.create_index(op.f("ix_intent_decision_id"), "intent", ["decision_id"], unique=False)
    op.create_index(op.f("ix_intent_device"), "intent", ["device"], unique=False)
    op.create_index(
        "ix_intent_pending",
        "intent",
        ["id"],
        unique=False,
        sqlite_where=sa.text("acked = 0"),
        postgresql_where=sa.text("acked = 0"),
    )
    op.create_index(op.f("ix_intent_point"), "intent", ["point"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(SQLITE_APPEND_ONLY.format(event=event))
    else:
        op.execute(POSTGRESQL_APPEND_ONLY)


def downgrade() -> None:
    op.drop_index(op.f("ix_intent_point"), table_name="intent")
    op.drop_index(
        "ix_intent_pending",
        table_name="intent",
        sqlite_where=sa.text("acked = 0"),
        postgresql_where=sa.text("acked = 0"),
    )
    op.drop_index(op.f("ix_intent_device"), table_name="intent")
    op.drop_index(op.f("ix_intent_decision_id"), table_name="intent")
    op.drop_table("intent")
    op.drop_index(op.f("ix_delivery_outbox_id"), table_name="delivery")
    op.drop_index(
        "ix_delivery_due",
        table_name="delivery",
        sqlite_where=sa.text("next_try_ms IS NOT NULL"),
        postgresql_where=sa.text("next_try_ms IS NOT NULL"),
    )
    op.drop_table("delivery")
    op.drop_table("site_meta")
    op.drop_index(op.f("ix_scan_layout_id_source_ms"), table_name="scan")
    op.drop_table("scan")
    op.drop_table("point")
    op.drop_index(op.f("ix_override_until_ms"), table_name="override")
    op.drop_table("override")
    op.drop_table("outbox")
    op.drop_table("mode")
    op.drop_table("lease")
    op.drop_index(op.f("ix_layout_device"), table_name="layout")
    op.drop_table("layout")
    op.drop_table("dropped")
    op.drop_table("decision")
    op.drop_index(op.f("ix_cycle_now_ms"), table_name="cycle")
    op.drop_table("cycle")
    op.drop_index(op.f("ix_audit_subject"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("api_key")
    op.drop_table("alarm_change")
    op.drop_index(op.f("ix_alarm_active"), table_name="alarm")
    op.drop_table("alarm")
    op.drop_table("ack")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_append_only()")
