"""Roll-ups of quarters of an hour and of days of the site."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = ("rollup_15m", "rollup_1d")


def upgrade() -> None:
    for table in TABLES:
        op.create_table(
            table,
            sa.Column("start_ms", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("total", sa.Double(), nullable=True),
            sa.Column("minimum", sa.Double(), nullable=True),
            sa.Column("maximum", sa.Double(), nullable=True),
            sa.Column("first", sa.Double(), nullable=True),
            sa.Column("last", sa.Double(), nullable=True),
            sa.Column("delta", sa.Double(), nullable=True),
            sa.Column("inside", sa.Double(), nullable=True),
            sa.Column("first_ms", sa.BigInteger(), nullable=True),
            sa.Column("last_ms", sa.BigInteger(), nullable=True),
            sa.Column("point_id", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("count", sa.Integer(), nullable=False),
            sa.Column("good", sa.Integer(), nullable=False),
            sa.Column("suspect", sa.Integer(), nullable=False),
            sa.PrimaryKeyConstraint("point_id", "start_ms", name=op.f(f"pk_{table}")),
            sqlite_with_rowid=False,
        )


def downgrade() -> None:
    # What stands here is reckoned from samples that may be gone.
    for table in TABLES:
        held = op.get_bind().execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
        if held:
            raise RuntimeError(
                f"{table} holds {held} roll-ups, which the schema before cannot; "
                "restore a backup from before the upgrade instead"
            )
    for table in reversed(TABLES):
        op.drop_table(table)
