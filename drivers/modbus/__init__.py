"""Modbus: TCP, TLS, RTU frames over TCP, and serial lines, in our own frames.

A link is shared by all units behind one endpoint; a transport is one of them. Why no library
speaks for us: docs/adr (own Modbus client).
"""

from drivers.modbus.link import ModbusLink
from drivers.modbus.transport import ModbusTransport

__all__ = ["ModbusLink", "ModbusTransport"]
