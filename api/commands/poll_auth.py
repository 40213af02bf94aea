"""What `wattkeeper poll --auth` and `--community` say: a community, or a login as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from drivers.credentials import Credentials

#: what comes before the path of a file
FILE: Final = "file:"
MAX_OCTETS: Final = 64 * 1024
_KEYS: Final = frozenset(
    {"kind", "user", "secret", "digest", "cipher", "privacy_secret", "context"}
)
_KINDS: Final = ("community", "community_v1", "snmpv3", "password")


def credentials_from(auth: str | None, community: str | None) -> Credentials:
    """What the device wants to hear.

    Args:
        auth: name of an environment variable, or `file:PATH`. In it stands a v2c community, or a
            JSON object with the keys of an entry of `auth:` in a facility file, the secrets
            themselves in it: `{"kind": "snmpv3", "user": …, "digest": …, "secret": …}`.
        community: a v2c community.

    Raises:
        ValueError: both are given, nothing is there, or no such credentials; the text holds no
            secret.
    """
    if community is not None and auth is not None:
        raise ValueError("--auth and --community: name one of them")
    if community is not None:
        return Credentials(secret=community)
    if auth is None:
        return Credentials()
    text = _found(auth)
    if not text.lstrip().startswith("{"):
        return Credentials(secret=text)
    try:
        content = json.loads(text)
    except ValueError:
        raise ValueError(f"--auth {auth}: begins like JSON, but is none") from None
    return _from_object(auth, content)


def _found(auth: str) -> str:
    if auth.startswith(FILE):
        path = Path(auth.removeprefix(FILE))
        try:
            with path.open("rb") as stream:
                text = stream.read(MAX_OCTETS).decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no UTF-8"
            raise ValueError(f"--auth {auth}: {reason}") from None
        if not text:
            raise ValueError(f"--auth {auth}: the file is empty")
        return text
    text = os.environ.get(auth, "")
    if not text:
        raise ValueError(f"--auth {auth}: the environment variable {auth} is not set")
    return text


def _from_object(auth: str, content: Mapping[str, Any]) -> Credentials:
    for key, value in content.items():
        if key not in _KEYS:
            raise ValueError(f"--auth {auth}: no key {key!r} (known: {', '.join(sorted(_KEYS))})")
        if not isinstance(value, str):
            raise ValueError(f"--auth {auth}: {key} is no text")
    if content.get("kind", "community") not in _KINDS:
        raise ValueError(f"--auth {auth}: kind is one of {', '.join(_KINDS)}")
    if content.get("kind", "community") != "snmpv3" and "secret" not in content:
        raise ValueError(f"--auth {auth}: a community or password needs its secret")
    found = Credentials(**{"secret": "", **content})
    fault = found.fault()
    if fault is not None:
        raise ValueError(f"--auth {auth}: {fault}")
    return found
