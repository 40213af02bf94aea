"""Where a device is: the addresses of a facility file and of `wattkeeper poll --target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

DEFAULT_PORTS: Final[Mapping[str, int]] = {"snmp": 161, "modbus": 502}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a device is.

    Attributes:
        scheme: snmp, modbus, mqtt or sim.
        host, port: of the endpoint; empty and 0 for mqtt and sim.
        unit: Modbus unit behind the endpoint.
        topic: for mqtt, the device's topic on the site's broker.
    """

    scheme: str
    host: str = ""
    port: int = 0
    unit: int = 1
    topic: str = ""

    @property
    def endpoint(self) -> str:
        """Name of the shared thing it is reached through."""
        if self.scheme == "mqtt":
            return "broker"
        if self.scheme == "sim":
            return "sim"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `snmp://host[:port]`, `modbus://host[:port][/unit]`, `mqtt:topic` or `sim:`.

    Raises:
        ValueError: none of these.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "mqtt" and rest and not rest.startswith("//"):
        return Address("mqtt", topic=rest.strip("/"))
    if scheme == "sim":
        return Address("sim")
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"{text!r} is no snmp://host:port, modbus://host:port/unit or mqtt:topic")
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not host or url.query or url.fragment or url.username is not None:
        raise ValueError(f"{text!r} is not {scheme}://host:port")
    unit = 1
    path = url.path.strip("/")
    if path:
        if scheme != "modbus" or not (path.isascii() and path.isdigit() and int(path) <= 255):
            raise ValueError(f"{text!r}: {path!r} is no Modbus unit from 0 to 255")
        unit = int(path)
    if port == 0:
        raise ValueError(f"{text!r}: port 0 cannot be talked to")
    return Address(scheme, host, port or DEFAULT_PORTS[scheme], unit)
