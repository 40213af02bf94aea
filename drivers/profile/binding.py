"""A profile bound to one device: every row spelled out, every place resolved, layouts made.

The result is fixed before the first contact, so that the service knows its points while a device
is still unreachable; `wattkeeper poll` binds again after it has walked the device's tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

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
from drivers.profile.parameters import Within, names_of, rows_of, units_of, within_of
from drivers.profile.rows import RowName, arcs, key_of, part_of
from facility.kinds import KINDS, Nature
from facility.points import Layout, PointId, PointSpec


@dataclass(frozen=True, slots=True)
class ModbusAt:
    """Registers or bits on the wire: function, first address, how many, and how to read them.

    Attributes:
        write_function: 6 or 16 where the device insists on it.
    """

    where: ModbusWhere
    address: int
    write_function: Literal[6, 16] | None = None

    @property
    def count(self) -> int:
        """Registers or bits it fills."""
        return self.where.count


@dataclass(frozen=True, slots=True)
class SnmpAt:
    """One variable."""

    where: SnmpWhere
    oid: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedAt(SnmpAt):
    """One variable that is found by its name.

    Attributes:
        oid: the column; the rest is known once the device has been asked for its names.
        names: what it may be called.
        within: first arcs of the rest, where one of several devices of the agent is meant.
    """

    names: tuple[str, ...] = ()
    within: tuple[int, ...] = ()


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
        row: of the table's rows, the one it stands in.
        digits, unit_at: where its decimals and its unit are, when the device tells them.
        signed_scale: the device tells a scale in place of decimals: n above 0 multiplies, n
            below 0 divides by -n.
        divisor_scale: the device tells what to divide by.
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
    switched: Mapping[int | str, tuple[float, float]]
    row: RowName | None = None
    signed_scale: bool = False
    divisor_scale: bool = False

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


def resolve(
    where: Where, row: RowName | None = None, place: int = 0, within: Within | None = None
) -> At:
    """Put a row into a place.

    Args:
        where: the place.
        row: what the row is called in the device.
        place: where it stands among the rows, from 0.
        within: the table of variables that are found by name, for a place that is one.
    """
    if where.modbus is not None:
        return ModbusAt(where.modbus, where.modbus.address + place * (where.modbus.stride or 0))
    if where.snmp is not None:
        index = where.snmp.index
        key = () if row is None else key_of(row, index)
        return SnmpAt(where.snmp, where.snmp.oid + arcs(index, key))
    if where.variable:
        assert within is not None
        return _named(where, row, within, within.table.values)
    if where.prometheus is not None:
        return PrometheusAt(where.prometheus, None if row is None else int(row))
    if where.dsx is not None:
        return DsxAt(where.dsx)
    assert where.mqtt is not None
    here = Row(str(row), place)
    path = tuple(here if step == "row" else step for step in where.mqtt.path)
    return MqttAt(where.mqtt, where.mqtt.topic.replace("{row}", str(row)), path)


def _named(where: Where, row: RowName | None, within: Within, column: tuple[int, ...]) -> NamedAt:
    names = where.variable if row is None else (n.replace("*", str(row)) for n in where.variable)
    return NamedAt(SnmpWhere(oid=column), column, tuple(names), within.device)


def bind(
    profile: Profile,
    device: str,
    parameters: Mapping[str, str] | None = None,
    *,
    period_s: float | None = None,
    found: Mapping[str, Sequence[RowName]] | None = None,
    writable: bool = False,
) -> Binding:
    """Spell a profile out for one device.

    Args:
        profile: what kind of device it is.
        device: its name in the facility file.
        parameters: rows per table from the facility file, and `device` where variables are found
            by name.
        period_s: replaces the period of the shortest poll class; the others keep their ratio.
        found: rows per table, as walked.
        writable: whether the address allows what the profile can write (see `may_write`).

    Raises:
        ValueError: parameters that do not fit the profile.
    """
    rows = rows_of(profile, parameters or {}, found or {})
    within = within_of(profile, parameters or {})
    shortest = min(c.period for c in profile.classes.values())
    stretch = 1.0 if period_s is None else period_s / shortest
    grouped: dict[str, list[BoundPoint]] = {name: [] for name in profile.classes}
    for entry in profile.points:
        stale_after_s = profile.classes[entry.poll].stale_after * max(stretch, 1.0)
        bound_as = partial(_bound, device, entry, within, stale_after_s, writable)
        if entry.table is None:
            grouped[entry.poll].append(bound_as(None, 0))
            continue
        for place, row in enumerate(rows[entry.table]):
            offset = int(row) - profile.tables[entry.table].first if entry.at.modbus else place
            grouped[entry.poll].append(bound_as(row, offset))
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


def reading(binding: Binding) -> Binding:
    """The binding of a device that the service is to read: it must name something.

    Raises:
        ValueError: all of its points stand in tables, and no rows are named.
    """
    if not binding.layouts:
        profile = binding.profile
        tables = ", ".join(profile.tables)
        raise ValueError(f"{profile.profile} reads nothing until its rows are named: {tables}")
    return binding


def _sums(profile: Profile, device: str, bound: Sequence[BoundPoint]) -> tuple[BoundSum, ...]:
    """The sums whose members all stand in this poll class."""
    found = []
    for total in profile.sums:
        entries = {id(entry) for entry in profile.summed(total)}
        members = tuple(i for i, point in enumerate(bound) if id(point.entry) in entries)
        if members:
            kind = KINDS[total.kind]
            stale_s = bound[members[0]].spec.stale_after_s
            spec = PointSpec(PointId(device, total.part, total.kind), kind.low, kind.high, stale_s)
            found.append(BoundSum(spec, members))
    return tuple(found)


def _bound(
    device: str,
    entry: PointEntry,
    within: Within | None,
    stale_s: float,
    writable: bool,
    row: RowName | None,
    place: int,
) -> BoundPoint:
    kind = KINDS[entry.kind]
    part = entry.part if row is None else f"{entry.part[:-1]}{part_of(row)}"
    low, high = entry.range
    spec = PointSpec(
        PointId(device, part, entry.kind),
        low,
        high,
        stale_s,
        writable and entry.write is not None,
        tuple(sorted(entry.states.items())),
        entry.write.watchdog if entry.write else None,
    )
    put = partial(resolve, row=row, place=place, within=within)
    at = put(entry.at)
    switch = entry.unit_from
    digits = put(entry.digits) if entry.digits else None
    unit_at = put(switch.at) if switch else None
    codes: Mapping[int | str, str] = switch.codes if switch else {}
    if entry.at.variable and within is not None:
        table = within.table
        digits = None if table.scales is None else _named(entry.at, row, within, table.scales)
        if table.units is not None and entry.unit is None and kind.nature is not Nature.STATE:
            unit_at = _named(entry.at, row, within, table.units)
            codes = units_of(kind, table)
    if isinstance(at, ModbusAt) and entry.write is not None:
        at = replace(at, write_function=entry.write.function)
    readback = entry.write.readback if entry.write else None
    return BoundPoint(
        spec,
        entry,
        at,
        digits,
        unit_at,
        put(readback) if readback else at,
        unit_factors(kind, entry.unit or kind.unit),
        {code: unit_factors(kind, unit) for code, unit in codes.items()},
        row,
        signed_scale=bool(entry.at.variable),
        divisor_scale=bool(entry.at.variable and within and within.table.scales_divide),
    )
