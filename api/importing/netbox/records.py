"""What is read of NetBox's answers: fields checked one by one, everything else ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from api.importing.netbox.client import NetBox, NetBoxError

T = TypeVar("T")


@dataclass(frozen=True)
class Ref:
    """Something named elsewhere."""

    id: int
    name: str


@dataclass(frozen=True)
class Panel:
    """A power panel: the origin of feeds. NetBox knows no rating of it."""

    id: int
    name: str


@dataclass(frozen=True)
class Feed:
    """A power feed.

    Attributes:
        voltage: V as NetBox has it, line to line or to neutral unsaid; negative for some DC.
        amperage: A.
        max_utilization: 1 to 100 %.
        ports: ids of the power ports that its cable ends at.
    """

    id: int
    name: str
    panel: Ref
    rack: Ref | None
    status: str
    supply: str
    phase: str
    voltage: int
    amperage: int
    max_utilization: int
    tags: tuple[str, ...]
    fields: Mapping[str, Any]
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Rack:
    """A rack."""

    id: int
    name: str


@dataclass(frozen=True)
class Device:
    """A device; `rack` is None for what stands in none."""

    id: int
    name: str
    type: str
    rack: Ref | None


@dataclass(frozen=True)
class Port:
    """A power inlet of a device; draws in W, None where NetBox has none."""

    id: int
    name: str
    device: int
    maximum_draw: int | None
    outlets: tuple[int, ...]


@dataclass(frozen=True)
class Outlet:
    """An outlet of a rack PDU; `port` is the PDU's inlet, `leg` A, B or C or None."""

    id: int
    device: int
    port: int | None
    leg: str | None


@dataclass(frozen=True)
class Records:
    """Everything of one site, by id."""

    instance: str
    panels: dict[int, Panel] = field(default_factory=dict)
    feeds: dict[int, Feed] = field(default_factory=dict)
    racks: dict[int, Rack] = field(default_factory=dict)
    devices: dict[int, Device] = field(default_factory=dict)
    ports: dict[int, Port] = field(default_factory=dict)
    outlets: dict[int, Outlet] = field(default_factory=dict)


def read_records(netbox: NetBox, site: str) -> Records:
    """Everything that a site (its slug) has.

    Raises:
        NetBoxError: no answer, or one that does not hold what NetBox 4 has.
    """

    def all_of(what: str, read: Callable[[_Row], T]) -> dict[int, T]:
        found: dict[int, T] = {}
        for row in (_Row(what, row) for row in netbox.rows(what, site=site)):
            key, one = row.whole("id"), read(row)
            if found.setdefault(key, one) != one:
                raise NetBoxError(f"{what} {key}: came twice, and not the same; try again")
        return found

    records = Records(
        netbox.instance,
        panels=all_of("power-panels", _panel),
        feeds=all_of("power-feeds", _feed),
        racks=all_of("racks", _rack),
        devices=all_of("devices", _device),
        ports=all_of("power-ports", _port),
        outlets=all_of("power-outlets", _outlet),
    )
    if not records.racks and not records.panels:
        raise NetBoxError(f"{netbox.instance} has neither racks nor power panels at site {site!r}")
    return records


class _Row:
    """One row; every question names the row and the field when the answer has the wrong shape."""

    def __init__(self, what: str, row: Mapping[str, Any]) -> None:
        self.what, self.row = what, row

    def wrong(self, key: str, wanted: str) -> NetBoxError:
        return NetBoxError(
            f"{self.what} {self.row.get('id')!r}: {key} is {self.row.get(key)!r}, not {wanted}"
        )

    def whole(self, key: str) -> int:
        value = self.row.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, "a whole number")
        return value

    def whole_or_none(self, key: str) -> int | None:
        return None if self.row.get(key) is None else self.whole(key)

    def text(self, key: str) -> str:
        value = self.row.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "text")
        return value

    def choice(self, key: str) -> str | None:
        value = self.row.get(key)
        if isinstance(value, Mapping):
            value = value.get("value")
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a choice")
        return value or None

    def ref(self, key: str) -> Ref | None:
        value = self.row.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(key, "an object")
        inner = _Row(f"{self.what} {self.row.get('id')!r} {key}", value)
        name = value.get("name") or value.get("display") or value.get("slug")
        if not isinstance(name, str):
            raise inner.wrong("name", "text")
        return Ref(inner.whole("id"), name)

    def needed(self, key: str) -> Ref:
        ref = self.ref(key)
        if ref is None:
            raise self.wrong(key, "an object")
        return ref

    def tags(self) -> tuple[str, ...]:
        rows = self.row.get("tags") or ()
        return tuple(str(row.get("slug")) for row in rows if isinstance(row, Mapping))

    def fields(self) -> dict[str, Any]:
        values = self.row.get("custom_fields") or {}
        return {
            key: value.get("value") if isinstance(value, Mapping) else value
            for key, value in (values.items() if isinstance(values, Mapping) else ())
        }

    def ends(self, kind: str) -> tuple[int, ...]:
        """Ids of the far ends of its cable, where they are of a kind, e.g. `dcim.powerport`."""
        if self.row.get("connected_endpoints_type") != kind:
            return ()
        rows = self.row.get("connected_endpoints")
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise self.wrong("connected_endpoints", "a list of objects")
        return tuple(_Row(f"{self.what} end", row).whole("id") for row in rows)


def _panel(row: _Row) -> Panel:
    return Panel(row.whole("id"), row.text("name"))


def _feed(row: _Row) -> Feed:
    return Feed(
        id=row.whole("id"),
        name=row.text("name"),
        panel=row.needed("power_panel"),
        rack=row.ref("rack"),
        status=row.choice("status") or "unstated",
        supply=row.choice("supply") or "unstated",
        phase=row.choice("phase") or "unstated",
        voltage=row.whole("voltage"),
        amperage=row.whole("amperage"),
        max_utilization=row.whole("max_utilization"),
        tags=row.tags(),
        fields=row.fields(),
        ports=row.ends("dcim.powerport"),
    )


def _rack(row: _Row) -> Rack:
    return Rack(row.whole("id"), row.text("name"))


def _device(row: _Row) -> Device:
    kind = row.row.get("device_type")
    slug = kind.get("slug") if isinstance(kind, Mapping) else None
    name = row.row.get("name") or f"device-{row.whole('id')}"
    return Device(row.whole("id"), str(name), str(slug or "unstated"), row.ref("rack"))


def _port(row: _Row) -> Port:
    return Port(
        id=row.whole("id"),
        name=row.text("name"),
        device=row.needed("device").id,
        maximum_draw=row.whole_or_none("maximum_draw"),
        outlets=row.ends("dcim.poweroutlet"),
    )


def _outlet(row: _Row) -> Outlet:
    port = row.ref("power_port")
    return Outlet(
        id=row.whole("id"),
        device=row.needed("device").id,
        port=None if port is None else port.id,
        leg=row.choice("feed_leg"),
    )
