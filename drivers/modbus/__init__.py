"""Modbus: TCP, TLS, RTU frames over TCP, and serial lines, in our own frames.

A link is shared by all units behind one endpoint; a transport is one of them. Why no library
speaks for us: docs/adr (own Modbus client).
"""

from __future__ import annotations

from collections.abc import Sequence

from drivers.address import Address
from drivers.modbus.link import ModbusLink
from drivers.modbus.transport import ModbusTransport
from drivers.profile import ModbusLimits, Quirk
from drivers.transport import Links, Transport

__all__ = ["ModbusLink", "ModbusTransport", "second_opinion"]


def second_opinion(
    address: Address, links: Links, limits: ModbusLimits, quirks: Sequence[Quirk] = ()
) -> Transport:
    """One unit read by pymodbus, which shares no line with our frames; it never writes."""
    # pymodbus takes a while to load, and only this asks for it.
    from drivers.modbus.reference import ReferenceTransport

    return ReferenceTransport(address, links, limits, quirks)
