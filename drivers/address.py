"""Where a device is: the addresses of a facility file and of `wattkeeper poll --target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

DEFAULT_PORTS: Final[Mapping[str, int]] = {"snmp": 161, "modbus": 502}
#: schemes of a page of Prometheus text; `prometheus+` says what plain http leaves to the profile
PAGES: Final[Mapping[str, tuple[bool, int]]] = {
    "http": (False, 80),
    "https": (True, 443),
    "prometheus+http": (False, 80),
    "prometheus+https": (True, 443),
}
#: where exporters keep their page unless the address says otherwise
PAGE: Final = "/metrics"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a device is.

    Attributes:
        scheme: snmp, modbus, mqtt, prometheus or sim.
        host, port: of the endpoint; empty and 0 for mqtt and sim.
        unit: Modbus unit behind the endpoint.
        topic: for mqtt, the device's topic on the site's broker.
        path: for prometheus, the page, with its query.
        secure: for prometheus, whether the page is asked for over TLS.
    """

    scheme: str
    host: str = ""
    port: int = 0
    unit: int = 1
    topic: str = ""
    path: str = ""
    secure: bool = False

    @property
    def endpoint(self) -> str:
        """Name of the shared thing it is reached through."""
        if self.scheme == "mqtt":
            return "broker"
        if self.scheme == "sim":
            return "sim"
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = self.scheme
        if scheme == "prometheus":
            scheme = "https" if self.secure else "http"
        return f"{scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `snmp://host[:port]`, `modbus://host[:port][/unit]`, `mqtt:topic` or `sim:`.

    A page of Prometheus text is `http[s]://host[:port][/path][?query]`, also with `prometheus+`
    before it; its path is `/metrics` where none is given.

    Raises:
        ValueError: none of these.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "mqtt" and rest and not rest.startswith("//"):
        return Address("mqtt", topic=rest.strip("/"))
    if scheme == "sim":
        return Address("sim")
    if scheme in PAGES:
        return _page(text, scheme)
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


def _page(text: str, scheme: str) -> Address:
    """The address of a page.

    Raises:
        ValueError: no host, a fragment, a login (say with `auth` where it is), or a bad port.
    """
    secure, port = PAGES[scheme]
    try:
        url = urlsplit(text)
        host, given = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not host or url.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not {scheme}://host:port/path")
    if url.username is not None or url.password is not None:
        raise ValueError(f"{scheme}://{host}: a login is not for the address; name it in `auth`")
    if given == 0:
        raise ValueError(f"{text!r}: port 0 cannot be talked to")
    path = url.path if url.path.strip("/") else PAGE
    path = f"{path}?{url.query}" if url.query else path
    return Address("prometheus", host, given or port, path=path, secure=secure)
