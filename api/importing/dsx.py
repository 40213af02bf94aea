"""What a BMS on the DSX Exchange says of the hall, held against the facility file. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drivers.dsx.metadata import PointMeta
from facility.config import DeviceConfig, Facility

#: object types that a shipped profile reads
PROFILES: Final[Mapping[str, str]] = {
    "CDU": "dsx/cdu",
    "Rack": "dsx/rack",
    "PowerMeter": "dsx/power-meter",
    "Sensor": "dsx/sensor",
}
SCHEME: Final = "dsx:"


@dataclass(frozen=True)
class Told:
    """What the comparison found, in words.

    Attributes:
        unread: (profile, objectId, name) of objects that could be read and are not.
        differences: where the BMS and the file do not agree on whom something serves.
        silent: devices of which the BMS does not say whom they serve, or that it does not know.
    """

    unread: tuple[tuple[str, str, str], ...]
    differences: tuple[str, ...]
    silent: tuple[str, ...]


def compare(facility: Facility, points: Iterable[PointMeta]) -> Told:
    """Hold the objects of an exchange against a file.

    A rack of the BMS is the rack of the file that a device `dsx:ID` measures, else the one of the
    same name, whatever its case.
    """
    metas = list(points)
    named = {(m.object_type, m.object_id): m.object_name for m in metas if not m.part_of}
    read = {n: d for n, d in facility.devices.items() if d.address.startswith(SCHEME)}
    known = {d.address.removeprefix(SCHEME).strip() for d in read.values()}
    unread = sorted(
        (PROFILES[kind], object_id, name)
        for (kind, object_id), name in named.items()
        if kind in PROFILES and object_id not in known
    )
    serves: dict[str, set[str]] = {}
    for meta in metas:
        if not meta.part_of:
            serves.setdefault(meta.object_id, set()).update(meta.serves)
    racks = _racks(facility, read, named)
    differences, silent = [], []
    for name, device in read.items():
        wanted = _served(facility, device)
        if wanted is None:
            continue
        reached = _reached(device.address.removeprefix(SCHEME).strip(), serves)
        if not reached:
            silent.append(name)
            continue
        told = {racks[each] for each in reached if each in racks}
        more, less = sorted(told - wanted), sorted(wanted - told)
        if more:
            differences.append(f"{name}: serves {', '.join(more)} for the BMS, not for the file")
        if less:
            differences.append(f"{name}: serves {', '.join(less)} for the file, not for the BMS")
    return Told(tuple(unread), tuple(differences), tuple(silent))


def _racks(
    facility: Facility,
    read: Mapping[str, DeviceConfig],
    named: Mapping[tuple[str, str], str],
) -> dict[str, str]:
    """Our rack by the objectId of a rack."""
    ours = {name.casefold(): name for name in facility.power.racks}
    found = {}
    for (kind, object_id), name in named.items():
        if kind == "Rack":
            rack = ours.get(object_id.casefold()) or ours.get(name.casefold())
            found[object_id] = rack or object_id
    for device in read.values():
        if device.profile == PROFILES["Rack"] and device.measures.rack is not None:
            found[device.address.removeprefix(SCHEME).strip()] = device.measures.rack
    return found


def _served(facility: Facility, device: DeviceConfig) -> set[str] | None:
    """The racks behind what a device measures, by the file; None where that is no question."""
    about = device.measures
    if about.loop is not None and about.loop in facility.cooling.loops:
        return set(facility.cooling.loops[about.loop].racks)
    if about.rack is not None and device.profile != PROFILES["Rack"]:
        return {about.rack}
    if about.element is None:
        return None
    below: set[str] = {about.element}
    elements = facility.power.elements
    while True:
        more = {n for n, e in elements.items() if n not in below and below & set(e.fed_by)}
        if not more:
            break
        below |= more
    return {n for n, rack in facility.power.racks.items() if below & set(rack.feeds.values())}


def _reached(object_id: str, serves: Mapping[str, set[str]]) -> set[str]:
    """Everything that an object serves, directly or through others; circles end."""
    seen: set[str] = set()
    ahead = set(serves.get(object_id, ()))
    while ahead:
        seen |= ahead
        ahead = {each for one in ahead for each in serves.get(one, ())} - seen
    return seen
