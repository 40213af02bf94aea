"""Does a facility file make sense? Meaning, after `facility.loading` has seen to the shape.

What a profile can measure is the drivers' knowledge, so the caller passes it in.
"""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

from facility.config import DeviceConfig, Facility, Loop, Measures, Node
from facility.errors import ConfigError, Problem
from facility.loading import Loaded, load_partly, once
from facility.points import PointId
from facility.topology import suggestion, topology_problems
from facility.yamltree import dotted, read_text

Fault = tuple[tuple[str | int, ...], str, str | None]

#: labels that remote-write gives to series by itself; `hall` a site may choose
RESERVED_LABELS: Final = frozenset(
    ("device", "part", "kind", "rack", "element", "feed", "load", "loop", "node")
)

#: profile name -> the part:kind pairs that it offers, those that may be written among them
Offers = Mapping[str, tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]]


class Known(Protocol):
    """What the drivers know of devices and brokers; `facility` does not know the drivers."""

    @property
    def offers(self) -> Offers:
        """What each profile measures and lets write."""

    def device_fault(self, device: DeviceConfig) -> tuple[str, str] | None:
        """Key of the entry and words, when no device of a known profile can be made of it."""

    def clashes(self, devices: Mapping[str, DeviceConfig]) -> Iterable[tuple[str, str, str]]:
        """Device, key and words, for those that share a line but not its settings."""

    def broker_fault(self, url: str, prefix: str) -> tuple[str, str] | None:
        """Key of `agents` and words, when no broker can be reached by it."""


def check(loaded: Loaded, known: Known | None = None, *, simulated: bool = False) -> list[Problem]:
    """Every fault of meaning, in file order; empty when the file can be run.

    Args:
        loaded: a file of the right shape.
        known: what the drivers know; None checks no devices (file studies).
            A file without any device is a study too: nothing is asked of its meters.
        simulated: a simulation stands in for what the file leaves out (meters, sensors, secrets,
            permission to write), but not for what it says wrongly.
    """
    facility = loaded.facility
    faults: list[Fault] = [
        (tuple(path.split(".")), problem, hint)
        for path, problem, hint in topology_problems(facility.power)
    ]
    faults.extend(_site(facility))
    faults.extend(_nodes(facility))
    if known is not None:
        faults.extend(_devices(facility, known))
        faults.extend(_agents(facility, known))
        faults.extend(_cooling(facility, simulated=simulated))
        faults.extend(_control(facility))
        faults.extend(_power_off(facility))
        faults.extend(_hooks(facility))
        faults.extend(_traps(facility))
    if known is not None and not simulated:
        if facility.devices:
            faults.extend(_metering(facility))
        faults.extend(_secrets(facility))
        faults.extend(_host(facility))
    problems = once(loaded.problem(*fault) for fault in faults)
    return sorted(problems, key=lambda p: (p.line, p.column))


def examine(
    path: str, known: Known | None = None, *, simulated: bool = False
) -> tuple[Loaded | None, list[Problem]]:
    """Read and check a file; every fault of shape and of meaning at once.

    Parts whose shape is wrong are left out of the check of meaning, and what would only be
    said because they are left out is not said.
    """
    try:
        text, raw = read_text(path)
        loaded, problems, left_out = load_partly(text, raw, path)
    except ConfigError as error:
        return None, list(error.problems)
    if loaded is None:
        return None, problems
    names = {repr(str(step)) for out in left_out for step in out}
    for problem in check(loaded, known, simulated=simulated):
        if left_out and any(name in problem.problem for name in names):
            continue
        if any(problem.path.startswith(dotted(out[:-1]) or "\0") for out in left_out):
            continue
        problems.append(problem)
    problems.sort(key=lambda p: (p.line, p.column))
    return (None if problems else loaded), problems


def suggest(name: str, known: Collection[str]) -> str | None:
    """`did you mean X?`, or the first few known names, or None."""
    close = difflib.get_close_matches(name, list(known), n=1)
    if close:
        return f"did you mean {close[0]}?"
    if known and len(known) <= 8:
        return "known: " + ", ".join(known)
    return None


def _site(facility: Facility) -> Iterator[Fault]:
    zone = facility.site.timezone
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        hint = suggest(zone, zoneinfo.available_timezones())
        yield ("site", "timezone"), f"no time zone {zone!r}", hint


def _nodes(facility: Facility) -> Iterator[Fault]:
    racks = facility.power.racks
    groups: dict[str, str] = {}
    for name, node in facility.nodes.items():
        at = ("nodes", name)
        if node.rack not in racks:
            yield (*at, "rack"), f"no rack {node.rack!r}", suggest(node.rack, racks)
        yield from _caps(at, node)
        if node.group is not None:
            first = groups.setdefault(node.group, name)
            other = facility.nodes[first]
            if (node.min_cap, node.max_cap) != (other.min_cap, other.max_cap):
                yield (
                    (*at, "group"),
                    f"group {node.group!r} shares one cap, but {first} has another cap range",
                    None,
                )


def _caps(at: tuple[str, str], node: Node) -> Iterator[Fault]:
    floor = node.min_cap if node.floor is None else node.floor
    fallback = floor if node.fallback is None else node.fallback
    if node.max_cap <= 0.0:
        yield (*at, "max_cap"), "must be above zero", None
        return
    if node.min_cap > node.max_cap:
        yield (*at, "min_cap"), f"{node.min_cap:g} W is above max_cap {node.max_cap:g} W", None
        return
    if node.floor_tokens is not None:
        if node.curve is None:
            yield (*at, "floor_tokens"), "a floor in tok/s needs a curve", None
            return
        needed = node.curve.cap_for(node.floor_tokens / node.gpus)
        if needed > node.max_cap:
            yield (*at, "floor_tokens"), f"no cap up to {node.max_cap:g} W gives that", None
            return
    if not node.min_cap <= floor <= node.max_cap:
        yield (
            (*at, "floor"),
            f"{floor:g} W is outside {node.min_cap:g} W to {node.max_cap:g} W",
            None,
        )
    if not floor <= fallback <= node.max_cap:
        yield (
            (*at, "fallback"),
            f"{fallback:g} W is outside the floor {floor:g} W to max_cap {node.max_cap:g} W",
            None,
        )
    curve = node.curve
    if curve is not None and (curve.k <= 0.0 or curve.tm <= 0.0):
        yield (*at, "curve"), "tm and k must be above zero", None
    elif curve is not None and curve.c0 >= node.max_cap:
        yield (*at, "curve", "c0"), "lies at or above max_cap: no cap would buy a token", None


def _devices(facility: Facility, known: Known) -> Iterator[Fault]:
    seen, profiles = set(facility.nodes), known.offers
    for name, device in facility.devices.items():
        at = ("devices", name)
        if name in seen:
            yield at, "is also the name of a node; readings could not be told apart", None
        if device.auth is not None and device.auth not in facility.auth:
            yield (*at, "auth"), f"no auth {device.auth!r}", suggest(device.auth, facility.auth)
        elif (
            device.auth is not None
            and device.address.startswith("snmp:")
            and facility.auth[device.auth].kind == "password"
        ):
            yield (*at, "auth"), f"{device.auth!r} is a password: SNMP has none", None
        if device.profile not in profiles:
            hint = suggest(device.profile, list(profiles))
            yield (*at, "profile"), f"no profile {device.profile!r}", hint
        else:
            fault = known.device_fault(device)
            if fault is not None:
                yield (*at, fault[0]), fault[1], None
        yield from _measures(facility, (*at, "measures"), device.measures)
    for name, key, words in known.clashes(facility.devices):
        yield ("devices", name, key), words, None


def _measures(facility: Facility, at: tuple[str, ...], about: Measures) -> Iterator[Fault]:
    power = facility.power
    named = [
        k for k in ("element", "rack", "load", "loop", "node") if getattr(about, k) is not None
    ]
    if len(named) + about.nothing != 1:
        yield at, "must say exactly one of element, rack, load, loop, node, or nothing: true", None
    known: dict[str, Collection[str]] = {
        "element": power.elements,
        "rack": power.racks,
        "load": power.loads,
        "loop": facility.cooling.loops,
        "node": facility.nodes,
    }
    for key in named:
        target = str(getattr(about, key))
        if target not in known[key]:
            yield (*at, key), f"no {key} {target!r}", suggest(target, known[key])
    if about.feed is not None:
        owner = power.racks.get(about.rack or "") or power.loads.get(about.load or "")
        if about.rack is None and about.load is None:
            yield (*at, "feed"), "goes with a rack or a load", None
        elif owner is not None and about.feed not in owner.feeds:
            yield (*at, "feed"), f"no feed {about.feed!r}", suggest(about.feed, owner.feeds)


def _agents(facility: Facility, known: Known) -> Iterator[Fault]:
    agents = facility.agents
    fault = known.broker_fault(agents.broker, agents.topic_prefix)
    if fault is not None:
        yield ("agents", fault[0]), fault[1], None
    if agents.tls is not None and not agents.broker.startswith("mqtts:"):
        yield ("agents", "tls"), "goes with an mqtts:// broker", None
    yield from _brokers(facility, known)
    named: list[tuple[tuple[str, ...], str | None]] = [
        (("agents", "auth"), agents.auth),
        *((("brokers", name, "auth"), entry.auth) for name, entry in facility.brokers.items()),
        (("store", "auth"), facility.store.auth),
    ]
    if (remote := facility.store.remote_write) is not None:
        named.append((("store", "remote_write", "auth"), remote.auth))
    for at, auth in named:
        if auth is not None and auth not in facility.auth:
            yield at, f"no auth {auth!r}", suggest(auth, facility.auth)
        elif auth is not None and facility.auth[auth].kind == "snmpv3":
            yield at, f"{auth!r} is an SNMPv3 user: only SNMP knows those", None


def _brokers(facility: Facility, known: Known) -> Iterator[Fault]:
    for name, entry in facility.brokers.items():
        fault = known.broker_fault(entry.url, "x")
        if fault is not None:
            yield ("brokers", name, "url"), fault[1], None
        elif entry.tls is not None and not entry.url.startswith("mqtts:"):
            yield ("brokers", name, "tls"), "goes with an mqtts:// broker", None
    for name, device in facility.devices.items():
        at = ("devices", name, "broker")
        if device.broker is None:
            continue
        if device.broker not in facility.brokers:
            hint = suggest(device.broker, facility.brokers)
            yield at, f"no broker {device.broker!r} in `brokers`", hint
        elif device.address.partition(":")[0] not in ("mqtt", "dsx"):
            yield at, f"{device.address!r} is not reached through a broker", None


def _cooling(facility: Facility, *, simulated: bool) -> Iterator[Fault]:
    shares: dict[str, float] = {}
    for name, loop in facility.cooling.loops.items():
        at = ("cooling", "loops", name)
        for cdu, load in loop.cdus.items():
            if cdu not in facility.devices and not simulated:
                yield (*at, "cdus", cdu), f"no device {cdu!r}", suggest(cdu, facility.devices)
            if load not in facility.power.loads:
                yield (*at, "cdus", cdu), f"no load {load!r}", suggest(load, facility.power.loads)
        for rack, share in loop.racks.items():
            if rack not in facility.power.racks:
                yield (*at, "racks", rack), f"no rack {rack!r}", suggest(rack, facility.power.racks)
            shares[rack] = shares.get(rack, 0.0) + share
            if shares[rack] > 1.0 + 1e-9:
                yield (*at, "racks", rack), "more than 100 % of its heat goes to liquid", None
        for i, sensor in enumerate(loop.sensors):
            if sensor not in facility.devices:
                yield (
                    (*at, "sensors", i),
                    f"no device {sensor!r}",
                    suggest(sensor, facility.devices),
                )
        yield from _loop_limits(at, loop)
        if not loop.sensors and not simulated:
            yield (*at, "sensors"), "names no sensor: the dew point would be unknown for ever", None
    ambient = facility.controllers.cooling.ambient
    if ambient is not None:
        try:
            point = PointId.parse(ambient)
        except ValueError as error:
            yield ("controllers", "cooling", "ambient"), str(error), None
        else:
            if point.device not in facility.devices:
                yield (
                    ("controllers", "cooling", "ambient"),
                    f"no device {point.device!r}",
                    suggest(point.device, facility.devices),
                )


def _loop_limits(at: tuple[str, ...], loop: Loop) -> Iterator[Fault]:
    if loop.supply_min >= loop.supply_max:
        yield (*at, "supply_min"), "is not below supply_max", None
    elif not loop.supply_min <= loop.default_setpoint <= loop.supply_max:
        yield (*at, "default_setpoint"), "is outside supply_min to supply_max", None
    if loop.design_flow <= 0.0:
        yield (*at, "design_flow"), "must be above zero", None
    if loop.heat_capacity <= 0.0:
        yield (*at, "heat_capacity"), "must be above zero", None


def _metering(facility: Facility) -> Iterator[Fault]:
    metered = {
        (d.measures.rack, d.measures.feed)
        for d in facility.devices.values()
        if d.measures.rack is not None
    }
    for name, rack in facility.power.racks.items():
        for feed in rack.feeds:
            if (name, feed) not in metered:
                yield (
                    ("power", "racks", name, "feeds", feed),
                    "no device measures this feed of the rack",
                    f"a device with measures: {{rack: {name}, feed: {feed}}}",
                )


def _control(facility: Facility) -> Iterator[Fault]:
    if facility.control.enabled and not facility.control.allow:
        yield ("control", "allow"), "control is enabled but no point may be written", None
    for i, entry in enumerate(facility.control.allow):
        if len(entry.points.split(":")) != 3:
            yield (
                ("control", "allow", i, "points"),
                f"{entry.points!r} is not device:part:kind (with * for any)",
                None,
            )


def _power_off(facility: Facility) -> Iterator[Fault]:
    for i, name in enumerate(facility.control.power_off):
        at = ("control", "power_off", i)
        if name not in facility.nodes:
            yield at, f"no node {name!r}", suggestion(name, facility.nodes)
        elif name in facility.control.power_off[:i]:
            yield at, f"{name!r} stands here twice", None


def _secrets(facility: Facility) -> Iterator[Fault]:
    sources: Iterable[tuple[tuple[str | int, ...], object]] = (
        *((("auth", n, "secret"), a.secret) for n, a in facility.auth.items() if a.needs_secret),
        *(
            (("auth", n, "privacy_secret"), a.privacy_secret)
            for n, a in facility.auth.items()
            if a.privacy_secret is not None
        ),
        *((at, key) for at, key in ((("statements", "key"), facility.statements.key),) if key),
        *(
            (("alerts", "webhooks", n, "secret"), w.secret)
            for n, w in facility.alerts.webhooks.items()
        ),
    )
    for at, source in sources:
        named = [v for v in (getattr(source, k) for k in ("env", "file", "credential")) if v]
        if len(named) != 1:
            yield at, "must name exactly one of env, file, credential", None
    try:
        if urlsplit(facility.store.url).password:
            yield ("store", "url"), "holds a password; use store.auth", None
    except ValueError as error:
        yield ("store", "url"), str(error), None


def _traps(facility: Facility) -> Iterator[Fault]:
    traps = facility.traps
    if traps is None:
        return
    try:
        traps.address  # noqa: B018
    except ValueError as error:
        yield ("traps", "listen"), str(error), None
    for i, name in enumerate(traps.auth):
        if name not in facility.auth:
            yield ("traps", "auth", i), f"no auth {name!r}", suggest(name, facility.auth)
        elif facility.auth[name].kind == "password":
            yield ("traps", "auth", i), f"{name!r} is neither a community nor an SNMPv3 user", None


def _hooks(facility: Facility) -> Iterator[Fault]:
    for name, hook in facility.alerts.webhooks.items():
        yield from _http(("alerts", "webhooks", name, "url"), hook.url)
    if (remote := facility.store.remote_write) is not None:
        at = ("store", "remote_write")
        yield from _http((*at, "url"), remote.url)
        for label in remote.labels:
            if label in RESERVED_LABELS:
                yield (*at, "labels", label), "is a label that series have by themselves", None


def _http(at: tuple[str | int, ...], url: str) -> Iterator[Fault]:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        secret = parts.password
    except ValueError as error:
        yield at, str(error), None
        return
    if not sound:
        yield at, "is no http:// or https:// address", None
    elif secret:
        yield at, "holds a password; say with auth where it is", None


def _host(facility: Facility) -> Iterator[Fault]:
    feeds = facility.host.fed_by
    for i, feed in enumerate(feeds):
        if feed not in facility.power.elements:
            yield (
                ("host", "fed_by", i),
                f"no element {feed!r}",
                suggest(feed, facility.power.elements),
            )
    if facility.control.enabled and len(set(feeds)) < 2:
        yield (
            ("host", "fed_by"),
            "the controller's own host hangs on one side only; it would die with that side",
            "name the two elements that feed it",
        )
