"""Does a facility file make sense? Meaning, after `facility.loading` has seen to the shape.

What a profile can measure is the drivers' knowledge, so the caller passes it in.
"""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from facility.config import Facility, Loop, Node
from facility.errors import ConfigError, Problem
from facility.loading import Loaded, load_partly, once
from facility.points import PointId
from facility.topology import topology_problems
from facility.yamltree import dotted, read_text

Fault = tuple[tuple[str | int, ...], str, str | None]

#: profile name -> the part:kind pairs that it offers, those that may be written among them
Offers = Mapping[str, tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]]


def check(loaded: Loaded, offers: Offers | None = None) -> list[Problem]:
    """Every fault of meaning, in file order; empty when the file can be run.

    Args:
        loaded: a file of the right shape.
        offers: what each profile measures and lets write; None checks no devices (file studies).
            A file without any device is a study too: nothing is asked of its meters.
    """
    facility = loaded.facility
    faults: list[Fault] = [
        (tuple(path.split(".")), problem, hint)
        for path, problem, hint in topology_problems(facility.power)
    ]
    faults.extend(_site(facility))
    faults.extend(_nodes(facility))
    if offers is not None:
        faults.extend(_devices(facility, offers))
        faults.extend(_cooling(facility))
        if facility.devices:
            faults.extend(_metering(facility))
        faults.extend(_control(facility))
        faults.extend(_secrets(facility))
        faults.extend(_host(facility))
    problems = once(loaded.problem(*fault) for fault in faults)
    return sorted(problems, key=lambda p: (p.line, p.column))


def examine(path: str, offers: Offers | None = None) -> tuple[Loaded | None, list[Problem]]:
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
    for problem in check(loaded, offers):
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
    if node.min_cap > node.max_cap:
        yield (*at, "min_cap"), f"{node.min_cap:g} W is above max_cap {node.max_cap:g} W", None
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


def _devices(facility: Facility, offers: Offers) -> Iterator[Fault]:
    power, seen = facility.power, set(facility.nodes)
    for name, device in facility.devices.items():
        at = ("devices", name)
        if name in seen:
            yield at, "is also the name of a node; readings could not be told apart", None
        if device.profile not in offers:
            yield (
                (*at, "profile"),
                f"no profile {device.profile!r}",
                suggest(device.profile, list(offers)),
            )
        if device.auth is not None and device.auth not in facility.auth:
            yield (*at, "auth"), f"no auth {device.auth!r}", suggest(device.auth, facility.auth)
        scheme = device.address.split(":", 1)[0]
        if scheme not in ("snmp", "modbus", "mqtt"):
            yield (
                (*at, "address"),
                f"{device.address!r} is no snmp://, modbus:// or mqtt: address",
                None,
            )
        elif scheme != "mqtt":
            yield from _host_port((*at, "address"), device.address)
        about = device.measures
        named = [k for k in ("element", "rack", "load", "loop") if getattr(about, k) is not None]
        if len(named) + about.nothing != 1:
            yield (
                (*at, "measures"),
                "must say exactly one of element, rack, load, loop, or nothing: true",
                None,
            )
        known: dict[str, Collection[str]] = {
            "element": power.elements,
            "rack": power.racks,
            "load": power.loads,
            "loop": facility.cooling.loops,
        }
        for key in named:
            target = str(getattr(about, key))
            if target not in known[key]:
                yield (*at, "measures", key), f"no {key} {target!r}", suggest(target, known[key])
        if about.feed is not None:
            owner = power.racks.get(about.rack or "") or power.loads.get(about.load or "")
            if owner is not None and about.feed not in owner.feeds:
                yield (
                    (*at, "measures", "feed"),
                    f"no feed {about.feed!r}",
                    suggest(about.feed, owner.feeds),
                )


def _host_port(at: tuple[str, ...], address: str) -> Iterator[Fault]:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        yield at, f"{address!r}: {error}", None
        return
    if not parts.hostname:
        yield at, f"{address!r} names no host", None
    if port is not None and port == 0:
        yield at, f"{address!r}: port 0 cannot be reached", None


def _cooling(facility: Facility) -> Iterator[Fault]:
    for name, loop in facility.cooling.loops.items():
        at = ("cooling", "loops", name)
        for cdu, load in loop.cdus.items():
            if cdu not in facility.devices:
                yield (*at, "cdus", cdu), f"no device {cdu!r}", suggest(cdu, facility.devices)
            if load not in facility.power.loads:
                yield (*at, "cdus", cdu), f"no load {load!r}", suggest(load, facility.power.loads)
        for rack in loop.racks:
            if rack not in facility.power.racks:
                yield (*at, "racks", rack), f"no rack {rack!r}", suggest(rack, facility.power.racks)
        for i, sensor in enumerate(loop.sensors):
            if sensor not in facility.devices:
                yield (
                    (*at, "sensors", i),
                    f"no device {sensor!r}",
                    suggest(sensor, facility.devices),
                )
        yield from _loop_limits(at, loop)
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
    if not loop.sensors:
        yield (*at, "sensors"), "names no sensor: the dew point would be unknown for ever", None


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


def _secrets(facility: Facility) -> Iterator[Fault]:
    sources: Iterable[tuple[tuple[str | int, ...], object]] = (
        *((("auth", n, "secret"), a.secret) for n, a in facility.auth.items()),
        *(
            (("alerts", "webhooks", n, "secret"), w.secret)
            for n, w in facility.alerts.webhooks.items()
        ),
    )
    for at, source in sources:
        named = [v for v in (getattr(source, k) for k in ("env", "file", "credential")) if v]
        if len(named) != 1:
            yield at, "must name exactly one of env, file, credential", None
    if urlsplit(facility.store.url).password:
        yield ("store", "url"), "holds a password; use store.auth", None
    for name, hook in facility.alerts.webhooks.items():
        if urlsplit(hook.url).scheme not in ("http", "https"):
            yield ("alerts", "webhooks", name, "url"), "is no http:// or https:// address", None


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
