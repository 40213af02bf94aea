"""Copies of a whole store, made while it is in use.

Two forms: a SQLite file, made by SQLite's own backup (SQLite only), and a portable zip (both):

    manifest.json      form, schema's revision, newest hash of the audit; rows and SHA-256 per table
    TABLE.jsonl        a JSON line per row; bytes are `{"$b": base64}`
    HALL/facility.yaml the facility file that the hall ran with last
    HALL/curves.json   tokens against watts of every node, as the file has them
    HALL/secrets.json  which secrets it needs, and where it looks for each; never a value

The copy holds no secret: of keys the database knows hashes, and its own signing key is left out.
A restored store comes up in observe, whatever the file says: what was in auto must be put there
again by a person who has looked.
"""

from __future__ import annotations

from facility.store.backup.making import backup
from facility.store.backup.restoring import restore

__all__ = ["backup", "restore"]
