"""The shape of a device profile: what a device is, as data in a closed vocabulary.

A profile is one YAML file under drivers/profiles/. It holds no templates, expressions or code:
every key is listed here, and each is implemented once. The same profile drives the real device
(`drivers.device`) and, read backwards, the simulator that impersonates it (`drivers.sim`).
The guide for authors is docs/profiles.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from facility.kinds import KINDS, Kind
from facility.units import UNITS, QuantityError, parse_quantity

Verified = Literal["document", "capture", "sim", "bench", "field"]
#: Levels of proof that allow writing to any address; `sim` allows it on loopback only.
WRITABLE_ANYWHERE: frozenset[str] = frozenset({"bench", "field"})

Quirk = Literal[
    "close_after_each",  # Modbus: the device hangs up after an answer, or wants us to
    "pause_after_connect",  # Modbus: requests in the first second after connecting are ignored
    "pause_between_requests",  # Modbus: a request less than 50 ms after an answer is ignored
    "no_getbulk",  # SNMP: walk with GETNEXT
]
Check = Literal[
    "apparent power = voltage x current",
    "active power within voltage x current",
    "heat = flow x temperature difference",
]
WireType = Literal["u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "bit", "text"]
Syntax = Literal["integer", "gauge32", "counter32", "counter64", "timeticks", "octets", "oid"]

#: registers that a number of this type fills
REGISTERS: Mapping[str, int] = {
    "u16": 1,
    "s16": 1,
    "u32": 2,
    "s32": 2,
    "f32": 2,
    "u64": 4,
    "s64": 4,
    "f64": 4,
    "bit": 1,
}


def unit_factors(kind: Kind, unit: str) -> tuple[float, float]:
    """Scale and offset from `unit` to the canonical unit of `kind`.

    Raises:
        ValueError: the unit does not measure this kind.
    """
    if unit == kind.unit:
        return 1.0, 0.0
    units = UNITS.get(kind.quantity or "", {})
    if unit not in units:
        known = ", ".join(dict.fromkeys((kind.unit, *units)))
        raise ValueError(f"{unit!r} is no unit of {kind.name}; write one of: {known}")
    return units[unit]


def quantity_of(text: str, kind: Kind) -> float:
    """Read "25 degC" or "1500 rpm" as a number in the canonical unit of `kind`.

    Raises:
        ValueError: no number with a unit of that kind.
    """
    number, _, unit = text.strip().partition(" ")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"{text!r} is not a number with a unit") from None
    scale, offset = unit_factors(kind, unit.strip())
    value = value * scale + offset
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite")
    return value


def _duration(text: object) -> float:
    try:
        return parse_quantity(text, "time")
    except QuantityError as error:
        raise ValueError(str(error)) from None


def _oid(text: object) -> tuple[int, ...]:
    if isinstance(text, tuple):
        return text
    if not isinstance(text, str) or not re.fullmatch(r"\d+(\.\d+)+", text):
        raise ValueError(f"{text!r} is not an OID such as 1.3.6.1.2.1.1.1.0")
    arcs = tuple(int(arc) for arc in text.split("."))
    if max(arcs) >= 2**32 or len(arcs) > 128:
        raise ValueError(f"{text!r} has an arc of more than 32 bits or more than 128 arcs")
    return arcs


def _part(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z_]*(\.(\*|[a-z0-9\-]+))?", text):
        raise ValueError(f"{text!r} is no part such as total, phase.1 or phase.*")
    return text


DurationS = Annotated[float, BeforeValidator(_duration), Field(gt=0.0)]
DelayS = Annotated[float, BeforeValidator(_duration), Field(ge=0.0)]
Oid = Annotated[tuple[int, ...], BeforeValidator(_oid)]
Part = Annotated[str, AfterValidator(_part)]
Index = tuple[int | Literal["row"], ...]


class Strict(BaseModel):
    """Frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModbusWhere(Strict):
    """A number in the registers or bits of a Modbus device.

    Attributes:
        address: as on the wire, from 0 (a manual's "40101" is holding register 100).
        stride: registers from one row of the point's table to the next.
        bit: which bit of the register (0 is the least), for type `bit` in registers.
        word_order: `big` is ABCD, the standard; `little` puts the least word first (CDAB).
        byte_order: `little` swaps the bytes within each register.
        length: registers of a text.
    """

    function: Literal["holding", "input", "coil", "discrete"] = "holding"
    address: Annotated[int, Field(ge=0, le=65535)]
    type: WireType = "u16"
    word_order: Literal["big", "little"] = "big"
    byte_order: Literal["big", "little"] = "big"
    bit: Annotated[int, Field(ge=0, le=15)] | None = None
    length: Annotated[int, Field(ge=1, le=64)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _shape(self) -> ModbusWhere:
        in_bits = self.function in ("coil", "discrete")
        if in_bits and (self.type != "bit" or self.bit is not None):
            raise ValueError("coils and discrete inputs hold `type: bit` and need no `bit`")
        if not in_bits and (self.type == "bit") != (self.bit is not None):
            raise ValueError("`type: bit` in a register needs `bit`, and only it does")
        if (self.type == "text") != (self.length is not None):
            raise ValueError("`type: text` needs `length` in registers, and only it does")
        if self.address + self.count > 65536:
            raise ValueError("reaches past register 65535")
        return self

    @property
    def count(self) -> int:
        """Registers or bits it fills."""
        return self.length if self.length is not None else REGISTERS[self.type]


class SnmpWhere(Strict):
    """A variable of an SNMP agent.

    Attributes:
        oid: the whole name of a scalar, or the column of a table when `index` is given.
        index: arcs after the column; the word `row` stands for the row's number.
        syntax: the ASN.1 type that the agent sends; reading accepts any, the simulator and
            writes send this one.
    """

    oid: Oid
    index: Index = ()
    syntax: Syntax = "integer"


class MqttWhere(Strict):
    """A value in a message.

    Attributes:
        topic: below the device's own topic; empty for that topic itself.
        path: keys and positions into the JSON payload; the word `row` stands for the row's
            number in an object and for its place from 0 in an array; empty for a plain payload.
        time: path of the source time (UTC ms) in the same message, if it carries one.
    """

    topic: str = ""
    path: tuple[str | int, ...] = ()
    time: tuple[str, ...] = ()


class Where(Strict):
    """Where a value is; exactly one of the protocols."""

    modbus: ModbusWhere | None = None
    snmp: SnmpWhere | None = None
    mqtt: MqttWhere | None = None

    @model_validator(mode="after")
    def _one(self) -> Where:
        if sum(w is not None for w in (self.modbus, self.snmp, self.mqtt)) != 1:
            raise ValueError("name exactly one of modbus, snmp, mqtt")
        return self

    @property
    def protocol(self) -> str:
        """Which of the protocols it names."""
        return next(p for p in ("modbus", "snmp", "mqtt") if getattr(self, p) is not None)


class UnitSwitch(Strict):
    """A unit that people can change on the device: where it says which, and what the codes mean."""

    at: Where
    codes: Mapping[int, str] = Field(min_length=1)


class Write(Strict):
    """What may be written, and how to see that it happened.

    Attributes:
        min, max, step: in the point's kind, as text with a unit.
        settle: wait before reading back.
        readback: where the value in force is shown; the point itself by default.
        fallback: what the device should do on its own when nobody writes any more.
        watchdog: after how long without a write the device falls back by itself, if it does.
    """

    min: str
    max: str
    step: str
    settle: DelayS = 0.0
    readback: Where | None = None
    fallback: str | None = None
    watchdog: DurationS | None = None


class Simulated(Strict):
    """What an impersonator answers for things that its plant does not know.

    Attributes:
        value: reading in the kind's canonical unit where the plant has no such instrument;
            without it the impersonator sends the sentinel, or says that there is no such thing.
        digits: decimals it claims, where the point has `digits`.
    """

    value: float | None = None
    digits: Annotated[int, Field(ge=0, le=6)] = 0


class PointEntry(Strict):
    """One point, or one per row of a table (its part then ends in `.*`).

    value in `unit` = raw x scale x 10^-digits + offset, after raw sentinels are taken out.

    Attributes:
        poll: poll class, a key of the profile's `classes`.
        digits: where the device tells the number of decimals.
        unit: of the scaled number; `unit_from` overrides it with what the device says.
        codes: raw code -> the code of this point's kind; codes not listed are undecodable.
        states: code -> name, for people.
        sentinels: raw patterns that mean "no value": integers (as sent, or as a bit pattern of
            the register type) or texts. Checked before scaling.
        plausible: narrower than the kind's own range, as two texts with a unit.
        optional: some models lack it; its absence is then no fault worth showing.
        simulated: how an impersonator answers where its plant does not say.
    """

    part: Part
    kind: str
    at: Where
    poll: str = "fast"
    table: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    digits: Where | None = None
    unit: str | None = None
    unit_from: UnitSwitch | None = None
    codes: Mapping[int, int] = Field(default_factory=dict)
    states: Mapping[int, str] = Field(default_factory=dict)
    sentinels: tuple[int | str, ...] = ()
    plausible: tuple[str, str] | None = None
    optional: bool = False
    write: Write | None = None
    simulated: Simulated = Field(default_factory=lambda: Simulated())

    @model_validator(mode="after")
    def _meaning(self) -> PointEntry:
        if self.kind not in KINDS:
            raise ValueError(f"no kind {self.kind!r}; kinds are: {', '.join(KINDS)}")
        kind = KINDS[self.kind]
        if self.scale == 0.0:
            raise ValueError("scale 0 would turn every reading into the same number")
        if self.unit is not None:
            unit_factors(kind, self.unit)
        for unit in (self.unit_from.codes if self.unit_from else {}).values():
            unit_factors(kind, unit)
        low, high = self.range
        if not low < high or low < kind.low or high > kind.high:
            raise ValueError(f"plausible range must lie within {kind.low} to {kind.high}")
        if (self.table is not None) != self.part.endswith(".*"):
            raise ValueError("a part ends in .* exactly when the point stands in a table")
        modbus = self.at.modbus
        if modbus is not None and (modbus.stride is not None) != (self.table is not None):
            raise ValueError("`stride` is needed in a table, and only there")
        if self.write is not None:
            if modbus is not None and modbus.function in ("input", "discrete"):
                raise ValueError(f"{modbus.function} registers cannot be written")
            if modbus is not None and (modbus.bit is not None or modbus.type == "text"):
                raise ValueError("a bit of a register, or a text, cannot be written")
            least, most = quantity_of(self.write.min, kind), quantity_of(self.write.max, kind)
            if not least < most:
                raise ValueError("write.min must lie below write.max")
            if self.step_of(self.write) <= 0.0:
                raise ValueError("write.step must be above zero")
        return self

    def step_of(self, write: Write) -> float:
        """The step in canonical units: a difference, so a unit's offset does not enter."""
        kind = KINDS[self.kind]
        number, _, unit = write.step.strip().partition(" ")
        unit = "degC" if unit == "K" and kind.quantity == "temperature" else unit
        return float(number) * unit_factors(kind, unit)[0]

    @property
    def range(self) -> tuple[float, float]:
        """Plausible range in the kind's canonical unit."""
        kind = KINDS[self.kind]
        if self.plausible is None:
            return kind.low, kind.high
        return quantity_of(self.plausible[0], kind), quantity_of(self.plausible[1], kind)


class Sum(Strict):
    """A point that the device does not have, but whose rows add up to it (a UPS's three lines).

    Attributes:
        part, kind: what the sum is called.
        of: the table's part without its row, e.g. `output`; same kind, same poll class.
    """

    part: Part
    kind: str
    of: str


class Table(Strict):
    """Rows of like things: phases, outlets, pumps.

    Attributes:
        rows: how many there are unless the facility file (or a walk) says otherwise.
        first: number of the first row.
        most: rows beyond this are not believed.
        walk: SNMP column whose rows tell which exist, with the shape of its index.
    """

    rows: Annotated[int, Field(ge=0, le=512)]
    first: Annotated[int, Field(ge=0, le=1)] = 1
    most: Annotated[int, Field(ge=1, le=512)] = 64
    walk: SnmpWhere | None = None


class IdentitySource(Strict):
    """One way to learn a text: fixed, or read and cut between two markers."""

    text: str | None = None
    at: Where | None = None
    after: str | None = None
    until: str | None = None

    @model_validator(mode="after")
    def _one(self) -> IdentitySource:
        if (self.text is None) == (self.at is None):
            raise ValueError("name exactly one of text, at")
        return self


class Identity(Strict):
    """Who the device says it is; the first source that yields a text counts."""

    vendor: tuple[IdentitySource, ...] = ()
    model: tuple[IdentitySource, ...] = ()
    firmware: tuple[IdentitySource, ...] = ()
    serial: tuple[IdentitySource, ...] = ()


class Match(Strict):
    """How `poll --profile auto` knows the device: sysObjectID equal to or below one of these."""

    sys_object_ids: tuple[Oid, ...] = ()


class PollClass(Strict):
    """How often its points are read, and when a value is too old to be believed."""

    period: DurationS
    stale_after: DurationS

    @model_validator(mode="after")
    def _order(self) -> PollClass:
        if self.stale_after < 2.0 * self.period:
            raise ValueError("stale_after must be at least two periods")
        return self


class ModbusLimits(Strict):
    """How much one request may ask for.

    Attributes:
        max_block: registers a request.
        max_hole: unused registers that may be read along to save a request.
    """

    max_block: Annotated[int, Field(ge=1, le=125)] = 100
    max_hole: Annotated[int, Field(ge=0, le=100)] = 16


class Profile(Strict):
    """One kind of device.

    Attributes:
        profile: its name; also the file's path below drivers/profiles.
        sums: points that are added up from the rows of a table.
        source: where the register map or MIB comes from.
        verified: how sure we are; see `WRITABLE_ANYWHERE`.
    """

    profile: str
    title: str
    source: str
    protocol: Literal["modbus", "snmp", "mqtt"]
    verified: Verified
    match: Match = Field(default_factory=Match)
    identity: Identity = Field(default_factory=Identity)
    classes: Mapping[str, PollClass] = Field(min_length=1)
    tables: Mapping[str, Table] = Field(default_factory=dict)
    points: tuple[PointEntry, ...] = Field(min_length=1)
    sums: tuple[Sum, ...] = ()
    checks: tuple[Check, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    modbus: ModbusLimits = Field(default_factory=ModbusLimits)

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        seen: set[tuple[str, str]] = set()
        for entry in self.points:
            name = f"{entry.part}:{entry.kind}"
            if (entry.part, entry.kind) in seen:
                raise ValueError(f"{name} stands twice")
            seen.add((entry.part, entry.kind))
            if entry.poll not in self.classes:
                raise ValueError(f"{name}: no poll class {entry.poll!r}")
            if entry.table is not None and entry.table not in self.tables:
                raise ValueError(f"{name}: no table {entry.table!r}")
            for where in wheres(entry):
                if where.protocol != self.protocol:
                    raise ValueError(f"{name}: {where.protocol} in a {self.protocol} profile")
            if entry.write is not None and self.verified in ("document", "capture"):
                raise ValueError(
                    f"{name}: writing needs `verified: bench` or `field` (or `sim` for loopback)"
                )
        for total in self.sums:
            name = f"{total.part}:{total.kind}"
            if (total.part, total.kind) in seen:
                raise ValueError(f"{name} stands twice")
            seen.add((total.part, total.kind))
            if self.summed(total) is None:
                raise ValueError(f"{name}: no points {total.of}.*:{total.kind} to add up")
        return self

    def summed(self, total: Sum) -> PointEntry | None:
        """The entry whose rows add up to a sum."""
        wanted = (f"{total.of}.*", total.kind)
        return next((e for e in self.points if (e.part, e.kind) == wanted), None)


def wheres(entry: PointEntry) -> tuple[Where, ...]:
    """Every place that a point's entry names."""
    found: list[Any] = [entry.at, entry.digits]
    found.append(entry.unit_from.at if entry.unit_from else None)
    found.append(entry.write.readback if entry.write else None)
    return tuple(w for w in found if w is not None)
