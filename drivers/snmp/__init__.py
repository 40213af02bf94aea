"""SNMP v1, v2c and v3: one agent is an `SnmpTransport`; everything else serves it."""

from __future__ import annotations

from typing import Final

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.snmp.question import Oid
from drivers.snmp.reader import Reader
from drivers.snmp.transport import SnmpTransport
from drivers.snmp.walk import Walked
from drivers.transport import Links

SYS_DESCR: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 1, 0)
SYS_OBJECT_ID: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 2, 0)

__all__ = ["SYS_DESCR", "SYS_OBJECT_ID", "Oid", "SnmpTransport", "Walked", "second_opinion"]


def second_opinion(address: Address, links: Links, credentials: Credentials) -> Reader:
    """The reader that shares no line with our own, for one agent."""
    # pysnmp takes a third of a second to load, and only this asks for it.
    from drivers.snmp.reference import ReferenceReader

    return ReferenceReader(address, links, credentials)
