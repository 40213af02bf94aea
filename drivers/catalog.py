"""The profiles that ship with Wattkeeper, and devices made from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from drivers.address import Address, parse_address
from drivers.credentials import Credentials
from drivers.device import ProfiledDevice
from drivers.finding import NamedVariables
from drivers.finding.identity import IdentifiedDevice
from drivers.profile import Profile, wheres
from drivers.profile.binding import bind, may_write, reading
from drivers.publishing import PROTOCOLS, Broker
from drivers.shelving import MadeWhenAsked
from drivers.transport import Links, Transport
from facility.clock import Clock
from facility.config import DeviceConfig
from facility.errors import ConfigError, Problem
from facility.loading import SHAPES
from facility.ports import Bus, Device
from facility.yamltree import dotted, read_tree

FOLDER: Final = Path(__file__).resolve().parent / "profiles"
#: what pydantic calls a wrong shape, for who writes a profile
WORDS: Final = {"extra_forbidden": "is no known key", "missing": "is missing", **SHAPES}


def read_profile(path: Path, name: str | None = None) -> Profile:
    """Read one profile file.

    Raises:
        ConfigError: every fault of the file, with line and column.
    """
    tree, _ = read_tree(str(path))
    try:
        profile = Profile.model_validate(tree.plain())
    except ValidationError as error:
        problems = []
        for fault in error.errors():
            place = tuple(fault["loc"])
            line, column = tree.place(place)
            words = WORDS.get(fault["type"], fault["msg"].removeprefix("Value error, "))
            problems.append(Problem(str(path), line, column, dotted(place), words))
        raise ConfigError(problems) from None
    if name is not None and profile.profile != name:
        line, column = tree.place(("profile",))
        fault_text = f"{profile.profile!r} in the file of {name!r}"
        raise ConfigError([Problem(str(path), line, column, "profile", fault_text)])
    return profile


@cache
def profiles() -> MadeWhenAsked[Profile]:
    """Every shipped profile by name, each read when it is first asked for.

    Asking for one raises `ConfigError` where the shipped file is faulty.
    """
    paths = {
        path.relative_to(FOLDER).with_suffix("").as_posix(): path
        for path in sorted(FOLDER.rglob("*.yaml"))
    }
    return MadeWhenAsked(paths, lambda name: read_profile(paths[name], name))


Pairs = frozenset[tuple[str, str]]


@cache
def offers() -> Mapping[str, tuple[Pairs, Pairs]]:
    """Profile -> the (part, kind) pairs that it measures, and those among them it can write."""
    return MadeWhenAsked(profiles(), _offered)


def _offered(name: str) -> tuple[Pairs, Pairs]:
    profile = profiles()[name]
    named = dict.fromkeys(profile.names, "x")
    binding = bind(profile, "x", named, writable=profile.verified in ("sim", "bench", "field"))
    specs = [spec for layout in binding.layouts for spec in layout.points]
    pairs = frozenset((s.id.part, s.id.kind) for s in specs)
    return pairs, frozenset((s.id.part, s.id.kind) for s in specs if s.writable)


def build_transport(
    profile: Profile,
    address: Address,
    credentials: Credentials,
    links: Links,
    *,
    reference: bool = False,
) -> Transport:
    """The wire of a device that is asked (Modbus, SNMP, pages of Prometheus text).

    Args:
        profile: what kind of device it is.
        address: where it is.
        credentials: what it wants to hear.
        links: shared by all devices of the process.
        reference: read by the second opinion instead of our own code (pysnmp, pymodbus).

    Raises:
        ValueError: an address that does not fit the profile's protocol.
    """
    if address.protocol != profile.protocol:
        raise ValueError(f"profile {profile.profile} speaks {profile.protocol}")
    # Protocol libraries load when a device needs them: `check` and the simulator do not.
    if address.protocol == "modbus":
        from drivers.modbus import ModbusTransport
        from drivers.modbus import second_opinion as modbus_by_pymodbus

        if reference:
            return modbus_by_pymodbus(address, links, profile.modbus, profile.quirks)
        return ModbusTransport(address, links, profile.modbus, profile.quirks)
    if address.scheme == "prometheus":
        from drivers.prometheus.transport import PrometheusTransport

        return PrometheusTransport(address, links, credentials)
    from drivers.snmp import SnmpTransport, second_opinion

    reader = second_opinion(address, links, credentials) if reference else None
    wire = SnmpTransport(address, links, credentials, profile.quirks, reader)
    if profile.variables is None and not any(
        where.snmp is not None and where.snmp.otherwise
        for entry in profile.points
        for where in wheres(entry)
    ):
        return wire
    return NamedVariables(wire, profile.variables, links.clock)


def build_device(
    config: DeviceConfig,
    device: str,
    address: str,
    secrets: Mapping[str, Credentials],
    clock: Clock,
    bus: Bus | Broker | None = None,
    links: Links | None = None,
) -> Device:
    """A device of a facility file, ready to be read; talks to nobody yet.

    Args:
        config: what the file says of it.
        device: its name.
        address: where it is; `config.address` unless a simulator took its place.
        secrets: auth name -> credentials.
        clock: of this process.
        bus: the device's broker, for those that publish; a bare bus is nobody else's.
        links: shared by all devices of the process, so that units behind one gateway share its
            connection; a fresh one for this device alone when None.

    Raises:
        ValueError: no such profile, an address that does not fit it, bad parameters, or an auth
            name without credentials.
    """
    profile = profiles().get(config.profile)
    if profile is None:
        raise ValueError(f"{device}: no profile {config.profile!r}")
    where = parse_address(address)
    if profile.protocol in PROTOCOLS:
        if where.protocol != profile.protocol or bus is None:
            words = f"needs a broker, and an {profile.protocol}: address"
            raise ValueError(f"{device}: profile {config.profile} {words}")
        binding = bind(profile, device, config.parameters, period_s=config.period)
        broker = bus if isinstance(bus, Broker) else Broker(bus, clock)
        return broker.device(binding, where)
    credentials = Credentials()
    if config.auth is not None:
        if config.auth not in secrets:
            raise ValueError(f"{device}: no credentials for auth {config.auth!r}")
        credentials = secrets[config.auth]
    writable = may_write(profile, where.host)
    binding = bind(profile, device, config.parameters, period_s=config.period, writable=writable)
    reading(binding)
    transport = build_transport(profile, where, credentials, links or Links(clock))
    if profile.match.sys_object_ids or profile.match.describes:
        return IdentifiedDevice(binding, transport, clock, profiles().values())
    return ProfiledDevice(binding, transport, clock)
