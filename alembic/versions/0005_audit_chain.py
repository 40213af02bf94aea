"""Each line of the audit carries a hash over itself and the one before."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# As they stand since 0001: whoever may write to the database may still not rewrite who did what.
SQLITE_APPEND_ONLY = """
CREATE TRIGGER audit_no_{event} BEFORE {event} ON audit
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
"""
POSTGRESQL_APPEND_ONLY = """
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION audit_append_only()
"""
# New: REPLACE deletes without asking the trigger for DELETE, TRUNCATE asks none for rows.
SQLITE_NO_REPLACE = """
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
"""
POSTGRESQL_NO_TRUNCATE = """
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()
"""
PAGE = 2_000


def upgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    op.add_column("audit", sa.Column("hash", sa.Text(), nullable=False, server_default=""))
    if sqlite:
        op.execute("DROP TRIGGER audit_no_UPDATE")
        _chain()
        op.execute(SQLITE_APPEND_ONLY.format(event="UPDATE"))
        op.execute(SQLITE_NO_REPLACE)
    else:
        op.execute("DROP TRIGGER audit_append_only ON audit")
        _chain()
        op.execute(POSTGRESQL_APPEND_ONLY)
        op.execute(POSTGRESQL_NO_TRUNCATE)


def _chain() -> None:
    """Chain the lines that are there, by the rule of this release, whatever later ones do."""
    connection = op.get_bind()
    last, before = 0, ""
    while True:
        page = connection.execute(
            sa.text(
                "SELECT id, at_ms, actor, action, subject, detail FROM audit "
                "WHERE id > :last ORDER BY id LIMIT :page"
            ),
            {"last": last, "page": PAGE},
        ).all()
        if not page:
            return
        hashes = []
        for row in page:
            line = json.dumps(list(row)[1:], separators=(",", ":"))
            before = hashlib.sha256(f"{before}\n{line}".encode()).hexdigest()
            hashes.append({"id": row.id, "hash": before})
        connection.execute(sa.text("UPDATE audit SET hash = :hash WHERE id = :id"), hashes)
        last = page[-1].id


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_no_replace")
    else:
        op.execute("DROP TRIGGER audit_no_truncate ON audit")
    op.drop_column("audit", "hash")
