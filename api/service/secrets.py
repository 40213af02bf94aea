"""Find secrets where the facility file says they are; they never stand in it."""

from __future__ import annotations

import os
from pathlib import Path

from facility.config import SecretSource

MAX_SECRET_BYTES = 64 * 1024


class SecretMissing(Exception):
    """A secret is not where the facility file says."""


def find(source: SecretSource) -> str:
    """The secret, without the newline that editors add.

    Raises:
        SecretMissing: the variable, file or systemd credential is not there or is empty.
    """
    if source.env is not None:
        value = os.environ.get(source.env, "")
        where = f"environment variable {source.env}"
    elif source.file is not None:
        value, where = _read(Path(source.file)), f"file {source.file}"
    elif source.credential is not None:
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        where = f"systemd credential {source.credential}"
        value = _read(Path(folder) / Path(source.credential).name) if folder else ""
    else:
        raise SecretMissing("the facility file names no place for the secret")
    value = value.rstrip("\r\n")
    if not value:
        lacks = "is not set" if source.env is not None else "is not there or is empty"
        raise SecretMissing(f"{where} {lacks}")
    return value


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_SECRET_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
