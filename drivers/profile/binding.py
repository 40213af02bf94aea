"""A profile bound to one device: every row spelled out, every place resolved, layouts made.

The result is fixed before the first contact, so that the service knows its points while a device
is still unreachable; `wattkeeper poll` binds again after it has walked the device's tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drivers.profile import (
    WRITABLE_ANYWHERE,
    DsxWhere,
    ModbusWhere,
    MqttWhere,
    PointEntry,
    Profile,
    PrometheusWhere,
    SnmpWhere,
    Where,
    quantity_of,
    unit_factors,
)
from facility.kinds import KINDS
from facility.points import Layout, PointId, PointSpec


@dataclass(frozen=True, slots=True)
class ModbusAt:
    """Registers or bits on the wire: function, first address, how many, and how to read them."""

    where: ModbusWhere
    address: int

    @property
    def count(self) -> int:
        """Registers or bits it fills."""
        return self.where.count


@dataclass(frozen=True, slots=True)
class SnmpAt:
    """One variable."""

    where: SnmpWhere
    oid: tuple[int, ...]


class Row(NamedTuple):
    """A step of a path that leads to a row: by name in an object, by place in an array."""

    name: str
    place: int


@dataclass(frozen=True, slots=True)
class MqttAt:
    """One value in a message: topic below the device's own, and the path into its payload."""

    where: MqttWhere
    topic: str
    path: tuple[str | int | Row, ...]


@dataclass(frozen=True, slots=True)
class DsxAt:
    """One point on the DSX Exchange; which object it is of is the device's affair."""

    where: DsxWhere


@dataclass(frozen=True, slots=True)
class PrometheusAt:
    """A number on a page of Prometheus text; `row` is what the label of the row must say."""

    where: PrometheusWhere
    row: int | None = None


At = ModbusAt | SnmpAt | MqttAt | PrometheusAt | DsxAt


@dataclass(frozen=True, eq=False)
class Places:
    """Places that are looked at together, each once, in order.

    Equal only to itself: whoever asks makes it once, and a transport keeps its plan for it.
    """

    at: tuple[At, ...]

    @classmethod
    def of(cls, places: Iterable[At]) -> Places:
        """The distinct ones among some places."""
        return cls(tuple(dict.fromkeys(places)))


@dataclass(frozen=True, slots=True)
class BoundPoint:
    """One point of one device.

    Attributes:
        spec: identity, plausible range, staleness, states.
        at: where its value is.
        digits, unit_at: where its decimals and its unit are, when the device tells them.
        readback: where a written value shows.
        factors: scale and offset from the profile's unit to the canonical one.
        switched: the same per code of the device's unit setting.
    """

    spec: PointSpec
    entry: PointEntry
    at: At
    digits: At | None
    unit_at: At | None
    readback: At
    factors: tuple[float, float]
    switched: Mapping[int, tuple[float, float]]

    @property
    def places(self) -> tuple[At, ...]:
        """Everything that has to be read to know the value."""
        return tuple(at for at in (self.at, self.digits, self.unit_at) if at is not None)


@dataclass(frozen=True, slots=True)
class BoundSum:
    """A point that is the sum of others: their places in the layout."""

    spec: PointSpec
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a write in the canonical unit."""

    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Binding:
    """All points of one device, by layout.

    `points[layout.key][i]` is `layout.points[i]`; the sums of that layout follow after them.

    Attributes:
        names: what stands in topics for the names in braces.
    """

    profile: Profile
    device: str
    layouts: tuple[Layout, ...]
    points: Mapping[str, tuple[BoundPoint, ...]]
    sums: Mapping[str, tuple[BoundSum, ...]]
    periods: Mapping[str, float]
    names: Mapping[str, str] = field(default_factory=dict)

    def all(self) -> tuple[BoundPoint, ...]:
        """Every point, layout after layout."""
        return tuple(point for layout in self.layouts for point in self.points[layout.key])

    def find(self, point: PointId) -> BoundPoint | None:
        """The bound point of an identity, or None when the device has no such point."""
        return next((bound for bound in self.all() if bound.spec.id == point), None)


def limits_of(entry: PointEntry) -> Limits | None:
    """Bounds of a writable point in its canonical unit; None for one that is only read."""
    if entry.write is None:
        return None
    kind = KINDS[entry.kind]
    low, high = quantity_of(entry.write.min, kind), quantity_of(entry.write.max, kind)
    return Limits(low, high, entry.step_of(entry.write))


def may_write(profile: Profile, host: str) -> bool:
    """Whether the profile is proven well enough to write to this host.

    `bench` and `field` profiles may write anywhere; a `sim` profile only to the machine itself
    (an address of 127.0.0.0/8, ::1, or no network at all), because nobody has seen it work.
    """
    if profile.verified in WRITABLE_ANYWHERE:
        return True
    return profile.verified == "sim" and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether a host name can only mean this machine; names other than localhost never do."""
    return host in ("", "::1", "localhost") or (
        host.startswith("127.")
        and len(host.split(".")) == 4
        and all(p.isdigit() and int(p) < 256 for p in host.split("."))
    )


def resolve(where: Where, row: int | None = None, place: int = 0) -> At:
    """Put a row into a place: `row` is its number in the device, `place` counts from 0."""
    if where.modbus is not None:
        return ModbusAt(where.modbus, where.modbus.address + place * (where.modbus.stride or 0))
    if where.snmp is not None:
        index = tuple((row or 0) if arc == "row" else int(arc) for arc in where.snmp.index)
        return SnmpAt(where.snmp, where.snmp.oid + index)
    if where.prometheus is not None:
        return PrometheusAt(where.prometheus, row)
    if where.dsx is not None:
        return DsxAt(where.dsx)
    assert where.mqtt is not None
    here = Row(str(row), place)
    path = tuple(here if step == "row" else step for step in where.mqtt.path)
    return MqttAt(where.mqtt, where.mqtt.topic.replace("{row}", str(row)), path)


def rows_of(
    profile: Profile, parameters: Mapping[str, str], found: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Row numbers of each table: as walked, else as the facility file says, else the default.

    Raises:
        ValueError: a parameter that the profile has no table for, or that is no row count.
    """
    unknown = set(parameters) - set(profile.tables) - profile.names
    if unknown:
        known = ", ".join(profile.tables) or "none"
        raise ValueError(f"{profile.profile} has no parameter {min(unknown)!r} (known: {known})")
    rows: dict[str, tuple[int, ...]] = {}
    for name, table in profile.tables.items():
        text = parameters.get(name)
        if text is not None and not (text.isascii() and text.isdigit() and int(text) <= table.most):
            raise ValueError(f"{name}: {text!r} is not a number of rows from 0 to {table.most}")
        count = table.rows if text is None else int(text)
        counted = tuple(range(table.first, table.first + count))
        rows[name] = tuple(found.get(name, counted))[: table.most]
    return rows


def names_of(profile: Profile, parameters: Mapping[str, str]) -> dict[str, str]:
    """The names that a device's topics have in place of the profile's braces.

    Raises:
        ValueError: one is missing, or cannot stand in a topic.
    """
    names = {}
    for name in sorted(profile.names):
        text = parameters.get(name, "").strip("/")
        if not text or set(text) & set("+#\0{}"):
            raise ValueError(f"{name}: {text!r}: {profile.profile} needs a part of an MQTT topic")
        names[name] = text
    return names


def bind(
    profile: Profile,
    device: str,
    parameters: Mapping[str, str] | None = None,
    *,
    period_s: float | None = None,
    found: Mapping[str, Sequence[int]] | None = None,
    writable: bool = False,
) -> Binding:
    """Spell a profile out for one device.

    Args:
        profile: what kind of device it is.
        device: its name in the facility file.
        parameters: rows per table from the facility file.
        period_s: replaces the period of the shortest poll class; the others keep their ratio.
        found: row numbers per table, as walked.
        writable: whether the address allows what the profile can write (see `may_write`).

    Raises:
        ValueError: parameters that do not fit the profile.
    """
    rows = rows_of(profile, parameters or {}, found or {})
    shortest = min(c.period for c in profile.classes.values())
    stretch = 1.0 if period_s is None else period_s / shortest
    grouped: dict[str, list[BoundPoint]] = {name: [] for name in profile.classes}
    for entry in profile.points:
        stale_after_s = profile.classes[entry.poll].stale_after * max(stretch, 1.0)
        if entry.table is None:
            grouped[entry.poll].append(_bound(device, entry, None, 0, stale_after_s, writable))
            continue
        for place, row in enumerate(rows[entry.table]):
            offset = row - profile.tables[entry.table].first if entry.at.modbus else place
            grouped[entry.poll].append(_bound(device, entry, row, offset, stale_after_s, writable))
    layouts, points, sums, periods = [], {}, {}, {}
    for name, bound in grouped.items():
        if not bound:
            continue
        added = _sums(profile, device, bound)
        layout = Layout(device, name, (*(b.spec for b in bound), *(a.spec for a in added)))
        layouts.append(layout)
        points[layout.key] = tuple(bound)
        sums[layout.key] = added
        periods[layout.key] = profile.classes[name].period * stretch
    names = names_of(profile, parameters or {})
    return Binding(profile, device, tuple(layouts), points, sums, periods, names)


def _sums(profile: Profile, device: str, bound: Sequence[BoundPoint]) -> tuple[BoundSum, ...]:
    """The sums whose members all stand in this poll class."""
    found = []
    for total in profile.sums:
        entry = profile.summed(total)
        members = tuple(i for i, point in enumerate(bound) if point.entry is entry)
        if entry is not None and members:
            kind = KINDS[total.kind]
            stale_s = bound[members[0]].spec.stale_after_s
            spec = PointSpec(PointId(device, total.part, total.kind), kind.low, kind.high, stale_s)
            found.append(BoundSum(spec, members))
    return tuple(found)


def _bound(
    device: str, entry: PointEntry, row: int | None, place: int, stale_s: float, writable: bool
) -> BoundPoint:
    kind = KINDS[entry.kind]
    part = entry.part if row is None else f"{entry.part[:-1]}{row}"
    low, high = entry.range
    spec = PointSpec(
        PointId(device, part, entry.kind),
        low,
        high,
        stale_s,
        writable and entry.write is not None,
        tuple(sorted(entry.states.items())),
    )
    switch = entry.unit_from
    at = resolve(entry.at, row, place)
    readback = entry.write.readback if entry.write else None
    return BoundPoint(
        spec,
        entry,
        at,
        resolve(entry.digits, row, place) if entry.digits else None,
        resolve(switch.at, row, place) if switch else None,
        resolve(readback, row, place) if readback else at,
        unit_factors(kind, entry.unit or kind.unit),
        {code: unit_factors(kind, unit) for code, unit in (switch.codes if switch else {}).items()},
    )
