"""Where a device is: the addresses of a facility file and of `wattkeeper poll --target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import SplitResult, parse_qsl, urlsplit

Parity = Literal["none", "even", "odd"]

DEFAULT_PORTS: Final[Mapping[str, int]] = {"snmp": 161, "modbus": 502, "modbus+tls": 802}
#: schemes of a page of Prometheus text; `prometheus+` says what plain http leaves to the profile
PAGES: Final[Mapping[str, tuple[bool, int]]] = {
    "http": (False, 80),
    "https": (True, 443),
    "prometheus+http": (False, 80),
    "prometheus+https": (True, 443),
}
#: where exporters keep their page unless the address says otherwise
PAGE: Final = "/metrics"
#: Modbus in all its clothes; serial device servers have no usual port
MODBUS: Final = ("modbus", "modbus+tls", "modbus+rtu", "modbus+serial")
#: rates that serial lines run at, bits a second
BAUDS: Final = (1200, 2400, 4800, 9600, 14400, 19200, 28800, 38400, 57600, 115200)
FORMS: Final = (
    "snmp://host:port, modbus://host:port/unit, modbus+tls://host:port/unit, "
    "modbus+rtu://host:port/unit, modbus+serial:///dev/NAME/unit, "
    "http://host:port/path, https://host:port/path, mqtt:topic or dsx:object"
)


@dataclass(frozen=True, slots=True)
class SerialLine:
    """A serial line and how it is set; the defaults are those of the Modbus standard.

    Attributes:
        path: of the device file.
        baud: bits a second.
        stop: stop bits.
    """

    path: str
    baud: int = 19200
    parity: Parity = "even"
    stop: int = 1

    @property
    def character_s(self) -> float:
        """How long one byte takes on the line, seconds."""
        return (1 + 8 + (self.parity != "none") + self.stop) / self.baud


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Whom to trust and who to be, as paths of PEM files.

    Attributes:
        ca: certificates that may sign the device's; the system's own when None.
        cert, key: what to show the device, where it asks for it.
        name: what the device's certificate is for, when that is not the host of the address.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a device is.

    Attributes:
        scheme: snmp, modbus (or modbus+tls, modbus+rtu, modbus+serial), mqtt, dsx,
            prometheus or sim.
        host, port: of the endpoint; empty and 0 for mqtt, dsx and sim. The host of a serial line is
            its device file, so that it is never taken for this machine.
        unit: Modbus unit behind the endpoint.
        topic: for mqtt, the device's topic on its broker; for dsx, its objectId.
        line: for modbus+serial.
        tls: for modbus+tls, and for prometheus over TLS.
        path: for prometheus, the page, with its query.
        secure: for prometheus, whether the page is asked for over TLS.
    """

    scheme: str
    host: str = ""
    port: int = 0
    unit: int = 1
    topic: str = ""
    line: SerialLine | None = None
    tls: TlsFiles | None = None
    path: str = ""
    secure: bool = False

    @property
    def protocol(self) -> str:
        """What is spoken there, as profiles name it."""
        return "modbus" if self.scheme in MODBUS else self.scheme

    @property
    def endpoint(self) -> str:
        """Name of the shared thing it is reached through."""
        if self.scheme in ("mqtt", "dsx"):
            return "broker"
        if self.scheme == "sim":
            return "sim"
        if self.line is not None:
            return f"{self.scheme}://{self.line.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = self.scheme
        if scheme == "prometheus":
            scheme = "https" if self.secure else "http"
        return f"{scheme}://{host}:{self.port}"

    @property
    def wire(self) -> tuple[str, object]:
        """The line or socket itself, and all that must be the same for whoever shares it."""
        if self.line is not None:
            return self.line.path, self.line
        return self.endpoint.partition("://")[2], (self.scheme, self.tls)


def parse_address(text: str) -> Address:
    """Read an address.

        snmp://host[:port]
        modbus://host[:port][/unit]                     Modbus TCP, port 502, unit 1
        modbus+tls://host[:port][/unit][?ca=FILE&cert=FILE&key=FILE&name=HOST]      port 802
        modbus+rtu://host:port[/unit]                   RTU frames through a serial device server
        modbus+serial:///dev/NAME/unit[?baud=19200&parity=even&stop=1]
        http[s]://host[:port][/path][?query]            a page of Prometheus text, /metrics
        https://host/path#ca=FILE&cert=FILE&key=FILE    the same with certificates of one's own
        mqtt:topic
        dsx:objectId                                    an object of a BMS on the DSX Exchange
        sim:

    A page may also have `prometheus+` before it.

    Raises:
        ValueError: none of these.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "mqtt" and rest and not rest.startswith("//"):
        return Address("mqtt", topic=rest.rstrip("/"))
    if scheme == "dsx" and rest.strip():
        return Address("dsx", topic=rest.strip())
    if scheme == "sim":
        return Address("sim")
    if scheme in PAGES:
        return _page(text, scheme)
    if scheme not in DEFAULT_PORTS and scheme not in MODBUS:
        raise ValueError(f"{text!r} is no {FORMS}")
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
        options = _options(url)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if scheme == "modbus+serial":
        return _serial(text, url, options)
    if not host or url.fragment or url.username is not None:
        raise ValueError(f"{text!r} is not {scheme}://host:port")
    if port == 0:
        raise ValueError(f"{text!r}: port 0 cannot be talked to")
    if port is None and scheme not in DEFAULT_PORTS:
        raise ValueError(f"{text!r}: name the port of the serial device server")
    path = url.path.strip("/")
    if path and scheme == "snmp":
        raise ValueError(f"{text!r} is not {scheme}://host:port")
    tls = _tls(text, options) if scheme == "modbus+tls" else None
    if options and tls is None:
        raise ValueError(f"{text!r}: {scheme}:// takes nothing after a question mark")
    unit = _unit(text, path) if path else 1
    return Address(scheme, host, port or DEFAULT_PORTS[scheme], unit, tls=tls)


def _options(url: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
    if len(dict(pairs)) != len(pairs):
        raise ValueError("an option stands twice")
    return dict(pairs)


def _unit(text: str, path: str) -> int:
    if not (path.isascii() and path.isdigit() and len(path) <= 3 and int(path) <= 255):
        raise ValueError(f"{text!r}: {path!r} is no Modbus unit from 0 to 255")
    return int(path)


def _tls(text: str, options: Mapping[str, str]) -> TlsFiles:
    unknown = set(options) - {"ca", "cert", "key", "name"}
    if unknown:
        raise ValueError(f"{text!r}: no option {min(unknown)!r} (known: ca, cert, key, name)")
    if any(not value for value in options.values()):
        raise ValueError(f"{text!r}: an option without a value")
    if "key" in options and "cert" not in options:
        raise ValueError(f"{text!r}: a key without a certificate")
    return TlsFiles(**options)


def _serial(text: str, url: SplitResult, options: Mapping[str, str]) -> Address:
    device, _, last = url.path.rpartition("/")
    if url.netloc or url.fragment or not device.startswith("/"):
        raise ValueError(f"{text!r} is not modbus+serial:///dev/NAME/unit")
    unknown = set(options) - {"baud", "parity", "stop"}
    if unknown:
        raise ValueError(f"{text!r}: no option {min(unknown)!r} (known: baud, parity, stop)")
    unit = _unit(text, last)
    if not 1 <= unit <= 247:
        raise ValueError(f"{text!r}: a serial line has units from 1 to 247")
    parity = options.get("parity", "even")
    baud, stop = options.get("baud", "19200"), options.get("stop", "1")
    if baud not in map(str, BAUDS):
        raise ValueError(f"{text!r}: baud must be one of {', '.join(map(str, BAUDS))}")
    if parity not in get_args(Parity):
        raise ValueError(f"{text!r}: parity must be one of none, even, odd")
    if stop not in ("1", "2"):
        raise ValueError(f"{text!r}: stop must be 1 or 2")
    line = SerialLine(device, int(baud), parity, int(stop))  # type: ignore[arg-type]
    return Address("modbus+serial", device, unit=unit, line=line)


def _page(text: str, scheme: str) -> Address:
    """The address of a page.

    Raises:
        ValueError: no host, a login (say with `auth` where it is), a bad port, or a file of
            certificates where there is no TLS.
    """
    secure, port = PAGES[scheme]
    try:
        url = urlsplit(text)
        host, given = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not host or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not {scheme}://host:port/path")
    if url.username is not None or url.password is not None:
        raise ValueError(f"{scheme}://{host}: a login is not for the address; name it in `auth`")
    if given == 0:
        raise ValueError(f"{text!r}: port 0 cannot be talked to")
    path = url.path if url.path.strip("/") else PAGE
    path = f"{path}?{url.query}" if url.query else path
    # The page's own query goes to the server; what stands after # never does.
    files = dict(parse_qsl(url.fragment))
    if set(files) - {"ca", "cert", "key"} or (url.fragment and not (files and secure)):
        raise ValueError(f"{text!r}: only https takes #ca=FILE&cert=FILE&key=FILE")
    tls = TlsFiles(**files) if files else None
    return Address("prometheus", host, given or port, tls=tls, path=path, secure=secure)
