"""The facility file of a made hall, as a person would write it, and the points of its devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drivers.catalog import profiles
from drivers.node.points import node_layout
from drivers.profile.binding import bind
from facility.config import Facility
from facility.points import Layout

#: name, least, greatest, fallback and overhead in W; curve: tokens a second, idle, knee, sharpness
TYPES = (
    ("h100", 200, 700, 350, 450, 900, 120, 300, 4),
    ("h200", 200, 700, 350, 450, 1050, 130, 320, 4),
    ("b200", 300, 1000, 500, 550, 1900, 150, 480, 5),
    ("gb200", 300, 1200, 550, 600, 2300, 170, 560, 5),
)
SIDES = ("a", "b")


@dataclass(frozen=True)
class Size:
    """How large a hall is.

    Attributes:
        rows: pairs of busways; each feeds `racks` racks of `nodes` nodes of four GPUs.
        pdus, ups: per side.
        loops: of coolant, each over as many rows as the other.
        outlets: metered outlets of each rack PDU.
    """

    rows: int
    racks: int
    nodes: int
    pdus: int
    ups: int
    loops: int
    outlets: int

    @property
    def rack_count(self) -> int:
        """Racks of the hall."""
        return self.rows * self.racks


#: 1,000 racks, 18,000 nodes, 72,000 GPUs, 8 UPS in two groups, 48 PDUs, 200 busways, a million
#: points.
FULL = Size(rows=100, racks=10, nodes=18, pdus=24, ups=4, loops=25, outlets=48)
#: The same shape where a test can look at it.
SMALL = Size(rows=4, racks=3, nodes=4, pdus=2, ups=3, loops=2, outlets=2)


def rack_name(row: int, rack: int) -> str:
    """The name that the ranges of the file make."""
    return f"r{row:03d}-{rack}"


def type_of(row: int) -> int:
    """Which node type stands in a row."""
    return row % len(TYPES)


def hall_text(size: Size) -> str:
    """facility.yaml of the hall."""
    return "\n".join((*_power(size), *_nodes(size), *_cooling(size), *_devices(size), *_rest()))


def _rack_w(row: int, size: Size) -> float:
    """W of a rack with every cap at its greatest."""
    _, _, most, _, overhead, *_ = TYPES[type_of(row)]
    return 2000.0 + size.nodes * (overhead + 4 * most * 1.05 / 0.96)


def _power(size: Size) -> Iterator[str]:
    rows_w = [size.racks * _rack_w(row, size) for row in range(1, size.rows + 1)]
    per_pdu = -(-size.rows // size.pdus)
    hall_w = sum(rows_w)
    yield "facility: 1"
    yield "site: {name: Made hall, timezone: UTC, ramp: 400 MW/min, design_dew_point: 16 degC}"
    yield "power:"
    yield "  resecure: 15 min"
    yield "  elements:"
    trips = "overload: [[110 %, 600 s], [125 %, 60 s], [150 %, 10 s]]"
    for n, side in enumerate(SIDES, start=1):
        yield f"    utility-{n}: {{kind: source}}"
        share_w = 0.86 * hall_w / 2.0 / (size.ups - 1)
        yield f"    ups-{side}[1-{size.ups}]:"
        yield f"      {{kind: ups, fed_by: [utility-{n}], rating: {share_w / 1e3:.0f} kW,"
        yield f"       autonomy: 300 s, {trips}}}"
        for pdu in range(1, size.pdus + 1):
            mine = [w for i, w in enumerate(rows_w) if i * size.pdus // size.rows == pdu - 1]
            limit_kw = 0.93 * (sum(mine) or per_pdu * max(rows_w)) / 1e3
            yield f"    pdu-{side}{pdu:02d}: {{kind: pdu, fed_by: [bus-{side}],"
            yield f"      rating: {limit_kw:.0f} kW, {trips}}}"
        for row in range(1, size.rows + 1):
            pdu = (row - 1) * size.pdus // size.rows + 1
            limit_kw = (0.78 + 0.04 * (row % 5)) * rows_w[row - 1] / 1e3
            yield f"    row{row:03d}-{side}: {{kind: busway, fed_by: [pdu-{side}{pdu:02d}],"
            yield f"      rating: {limit_kw:.0f} kW, {trips}}}"
    yield "  groups:"
    for side in SIDES:
        members = ", ".join(f"ups-{side}{n}" for n in range(1, size.ups + 1))
        yield f"    bus-{side}: {{members: [{members}], needs: {size.ups - 1}}}"
    yield "  racks:"
    for row in range(1, size.rows + 1):
        yield (
            f"    r{row:03d}-[0-{size.racks - 1}]: {{feeds: {{a: row{row:03d}-a, "
            f"b: row{row:03d}-b}}, rating: {_rack_w(row, size) / 1e3:.0f} kW, overhead: 2 kW}}"
        )
    yield "  loads:"
    for loop in range(1, size.loops + 1):
        row = (loop - 1) * size.rows // size.loops + 1
        yield (
            f"    cdu-{loop:02d}-[1-2]: {{feeds: {{a: row{row:03d}-a, b: row{row:03d}-b}}, "
            "rating: 6 kW}"
        )


def _nodes(size: Size) -> Iterator[str]:
    yield "node_types:"
    for gpu, least, most, fallback, overhead, tm, c0, k, n in TYPES:
        yield f"  {gpu}x4: {{gpus: 4, gpu: {gpu}, min_cap: {least} W, max_cap: {most} W,"
        yield f"    floor: {least} W, fallback: {fallback} W, overhead: {overhead} W,"
        yield f"    curve: {{tm: {tm} tok/s, c0: {c0} W, k: {k} W, n: {n}}}}}"
    yield "nodes:"
    for row in range(1, size.rows + 1):
        kind = f"{TYPES[type_of(row)][0]}x4"
        yield (
            f"  r{row:03d}-[0-{size.racks - 1}]-n[01-{size.nodes:02d}]: "
            f"{{type: {kind}, rack: 'r{row:03d}-{{1}}'}}"
        )


def _loop_rows(loop: int, size: Size) -> range:
    first = (loop - 1) * size.rows // size.loops + 1
    return range(first, loop * size.rows // size.loops + 1)


def _cooling(size: Size) -> Iterator[str]:
    yield "cooling:"
    yield "  loops:"
    for loop in range(1, size.loops + 1):
        racks = [(row, rack) for row in _loop_rows(loop, size) for rack in range(size.racks)]
        heat_w = sum(_rack_w(row, size) for row, _ in racks)
        yield f"    loop-{loop:02d}:"
        cdus = [f"cdu-{loop:02d}-{n}" for n in (1, 2)]
        yield f"      cdus: {{{', '.join(f'{cdu}: {cdu}' for cdu in cdus)}}}"
        yield "      racks:"
        for row, rack in racks:
            yield f"        {rack_name(row, rack)}: 90 %"
        first, last = rack_name(*racks[0]), rack_name(*racks[-1])
        yield f"      sensors: [inlet-{first}-top, inlet-{last}-low]"
        yield f"      design_flow: {1.5 * heat_w / 1e3:.0f} L/min"
        yield f"      heat_capacity: {1.2 * heat_w / 1e3:.0f} kW"
        yield "      gpu_resistance: 0.030 K/W"
        yield "      dew_point_override: true"


def _devices(size: Size) -> Iterator[str]:
    rows, racks = f"[001-{size.rows:03d}]", f"[0-{size.racks - 1}]"
    meter = "profile: pdu/apc-rpdu2, auth: snmp"
    yield "devices:"
    yield f"  pdu-r{rows}-{racks}-[a,b]: {{profile: pdu/apc-rpdu2, auth: snmp,"
    yield "    address: 'snmp://pdu-r{1}-{2}-{3}:161',"
    yield f"    parameters: {{outlets: '{size.outlets}', sensors: '8'}},"
    yield "    measures: {rack: 'r{1}-{2}', feed: '{3}'}}"
    yield f"  inlet-r{rows}-{racks}-[top,low]: {{profile: sensor/json-mqtt,"
    yield "    address: 'mqtt:hall/r{1}/{2}/{3}',"
    yield "    measures: {rack: 'r{1}-{2}'}}"
    yield f"  ups-[a,b][1-{size.ups}]: {{profile: ups/rfc1628, auth: snmp,"
    yield "    address: 'snmp://ups-{1}{2}:161', measures: {element: 'ups-{1}{2}'}}"
    yield f"  meter-pdu-[a,b][01-{size.pdus:02d}]: {{{meter},"
    yield "    address: 'snmp://meter-pdu-{1}{2}:161', measures: {element: 'pdu-{1}{2}'}}"
    yield f"  meter-row{rows}-[a,b]: {{{meter},"
    yield "    address: 'snmp://meter-row{1}-{2}:161', measures: {element: 'row{1}-{2}'}}"
    yield f"  cdu-[01-{size.loops:02d}]-[1-2]: {{profile: cdu/wattkeeper-sim,"
    yield "    address: 'modbus://cdu-{1}-{2}:502/1', measures: {loop: 'loop-{1}'}}"
    yield "  weather: {profile: sim/weather, address: 'mqtt:hall/weather',"
    yield "    measures: {nothing: true}}"


def _rest() -> Iterator[str]:
    yield "auth: {snmp: {kind: community, secret: {env: WATTKEEPER_SNMP_COMMUNITY}}}"
    yield "agents: {broker: 'mqtt://broker:1883', lease: 15 s, hold: 10 min}"
    yield "control:"
    yield "  enabled: true"
    yield "  mode: auto"
    yield "  allow:"
    yield "    - {points: '*:total:power_cap', by: bench}"
    yield "    - {points: '*:loop.secondary:supply_setpoint', by: bench}"
    yield "controllers:"
    yield "  allocation: {policy: throughput, period: 10 s}"
    yield "  cooling: {ambient: 'weather:outdoor:temperature'}"
    yield "host: {fed_by: [row001-a, row001-b]}"
    yield ""


def layouts_of(facility: Facility) -> Iterator[Layout]:
    """The layouts of every device and node, as the drivers make them."""
    known = profiles()
    for name, device in facility.devices.items():
        profile = known[device.profile]
        yield from bind(profile, name, device.parameters, writable=True).layouts
    for name, node in facility.nodes.items():
        yield node_layout(name, node)
