"""SNMP v1, v2c and v3: one agent is an `SnmpTransport`; everything else serves it."""

from __future__ import annotations

from typing import Final

from drivers.snmp.question import Oid
from drivers.snmp.transport import SnmpTransport
from drivers.snmp.walk import Walked

SYS_DESCR: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 1, 0)
SYS_OBJECT_ID: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 2, 0)

__all__ = ["SYS_DESCR", "SYS_OBJECT_ID", "Oid", "SnmpTransport", "Walked"]
