"""Hourly chunks; raw scans clustered by layout and time; daily partitions on PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    op.rename_table("scan", "scan_0001")
    if postgresql:
        op.execute("ALTER TABLE scan_0001 RENAME CONSTRAINT pk_scan TO pk_scan_0001")
    op.create_table(
        "scan",
        sa.Column("layout_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("layout_id", "source_ms", name=op.f("pk_scan")),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (source_ms)",
    )
    op.create_table(
        "chunk",
        sa.Column("layout_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hour_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scans", sa.Integer(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("layout_id", "hour_ms", name=op.f("pk_chunk")),
        postgresql_partition_by="RANGE (hour_ms)",
    )
    op.create_index(op.f("ix_chunk_hour_ms"), "chunk", ["hour_ms"], unique=False)
    if postgresql:
        # What lies in no day's partition is still taken.
        op.execute("CREATE TABLE scan_default PARTITION OF scan DEFAULT")
        op.execute("CREATE TABLE chunk_default PARTITION OF chunk DEFAULT")
        # Compressed already: TOAST shall not try again, and a slice is then read alone.
        op.execute("ALTER TABLE chunk ALTER COLUMN body SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE chunk_default ALTER COLUMN body SET STORAGE EXTERNAL")
    # Of several scans of one layout and time the one written last stays. The old index, which
    # goes with its table, answers this.
    op.execute(
        "INSERT INTO scan (layout_id, source_ms, received_ms, data) "
        "SELECT layout_id, source_ms, received_ms, data FROM scan_0001 AS s WHERE NOT EXISTS "
        "(SELECT 1 FROM scan_0001 AS later WHERE later.layout_id = s.layout_id "
        "AND later.source_ms = s.source_ms AND later.id > s.id) "
        "ORDER BY layout_id, source_ms"
    )
    op.drop_table("scan_0001")


def downgrade() -> None:
    connection = op.get_bind()
    held = connection.execute(sa.text("SELECT count(*) FROM chunk")).scalar_one()
    if held:
        raise RuntimeError(
            f"the store holds {held} compacted hours, which the first release cannot read; "
            "restore a backup from before the upgrade instead"
        )
    op.drop_index(op.f("ix_chunk_hour_ms"), table_name="chunk")
    op.drop_table("chunk")
    op.rename_table("scan", "scan_0002")
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE scan_0002 RENAME CONSTRAINT pk_scan TO pk_scan_0002")
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
    op.execute(
        "INSERT INTO scan (layout_id, source_ms, received_ms, data) "
        "SELECT layout_id, source_ms, received_ms, data FROM scan_0002 ORDER BY source_ms"
    )
    op.drop_table("scan_0002")
