"""What a device wants to hear before it answers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a device wants to hear, resolved from wherever the secret is kept.

    Attributes:
        kind: "community" (SNMP v1/v2c) or "password".
        user: for passwords.
        secret: never logged; `repr` hides it.
    """

    kind: str = "community"
    user: str | None = None
    secret: str = field(default="public", repr=False)
