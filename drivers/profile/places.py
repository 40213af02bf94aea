"""Places in a device: where a value is, in the words of each protocol, and in which unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from facility.kinds import Kind
from facility.units import UNITS, QuantityError, parse_quantity

WireType = Literal["u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "bit", "text"]
_PROTOCOLS = ("modbus", "snmp", "mqtt", "prometheus", "dsx")
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
Index = tuple[int | Literal["row", "text"], ...]


def _names(raw: object) -> object:
    return (raw,) if isinstance(raw, str) else raw


def _pairs(raw: object) -> object:
    return tuple(raw.items()) if isinstance(raw, Mapping) else raw


def _levels(topic: str) -> str:
    up = topic.split("/")
    while up and up[0] == "..":
        up.pop(0)
    if any("#" in level or level == ".." or ("+" in level and level != "+") for level in up):
        raise ValueError(f"{topic!r}: `+` fills a level, `..` stands at the front, `#` nowhere")
    if any(set(re.sub(r"\{[a-z_]+\}", "", level)) & set("{}\0") for level in up):
        raise ValueError(f"{topic!r}: braces hold a name in small letters, such as {{row}}")
    return topic


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
        bits: first and last bit of a field within an unsigned number (0 is the least).
        length: registers of a text.
        chars: where a register of a text holds characters; a device may leave one byte empty.
    """

    function: Literal["holding", "input", "coil", "discrete"] = "holding"
    address: Annotated[int, Field(ge=0, le=65535)]
    type: WireType = "u16"
    word_order: Literal["big", "little"] = "big"
    byte_order: Literal["big", "little"] = "big"
    bit: Annotated[int, Field(ge=0, le=15)] | None = None
    bits: tuple[int, int] | None = None
    length: Annotated[int, Field(ge=1, le=64)] | None = None
    chars: Literal["both", "high", "low"] = "both"
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
        if self.chars != "both" and self.type != "text":
            raise ValueError("`chars` is for `type: text`")
        if self.bits is not None:
            first, last = self.bits
            if self.type not in ("u16", "u32", "u64"):
                raise ValueError("`bits` are a field of a u16, u32 or u64")
            if not 0 <= first <= last < 16 * self.count:
                raise ValueError(f"`bits` must lie within 0 to {16 * self.count - 1}, low first")
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
        index: arcs after the column; the word `row` stands for a number of the row, `text` for
            its name with the length before it. See `drivers.profile.rows`.
        syntax: the ASN.1 type that the agent sends; reading accepts any, the simulator and
            writes send this one.
        otherwise: where other models have it, with the same index; the first place that answers
            counts.
    """

    oid: Oid
    index: Index = ()
    syntax: Syntax = "integer"
    otherwise: tuple[Oid, ...] = ()


class MqttWhere(Strict):
    """A value in a message.

    Attributes:
        topic: below the device's own; empty for that topic itself. A level may be `+` (whatever
            stands there), and hold `{row}` (the row of the point's table) or `{name}` (any other
            name: a parameter of the device in the facility file). `..` at the front goes up.
        path: keys and positions into the JSON payload; the word `row` stands for the row's
            name in an object and for its place from 0 in an array; empty for a plain payload.
        time: path of the source time in the same message, if it carries one.
        time_as: what that is: milliseconds or seconds since 1970 UTC, or an ISO 8601 text with
            its offset from UTC.
    """

    topic: Annotated[str, AfterValidator(_levels)] = ""
    path: tuple[str | int, ...] = ()
    time: tuple[str, ...] = ()
    time_as: Literal["ms", "s", "iso"] = "ms"

    @property
    def names(self) -> frozenset[str]:
        """Names in braces in the topic, `row` among them."""
        return frozenset(re.findall(r"\{([a-z_]+)\}", self.topic))


class DsxWhere(Strict):
    """A point of an object that a BMS publishes on the NVIDIA DSX Exchange, by its metadata.

    Attributes:
        object: objectType, such as CDU.
        point: pointType, such as LiquidTemperature.
        area: words that must all be in processArea, whatever their case.
        phase: A, B or C (or 1, 2, 3, which mean the same).
        setpoint: whether the metadata must say isSetpoint.
        texts: words of stateText -> our codes, whatever their case and spaces; where none of
            them is known the number itself is the code.
    """

    object: str
    point: str
    area: tuple[str, ...] = ()
    phase: Literal["A", "B", "C"] | None = None
    setpoint: bool = False
    texts: Annotated[tuple[tuple[str, int], ...], BeforeValidator(_pairs)] = ()


def _labels(raw: object) -> object:
    """`{mode: decode}` or `{mode: [a, b]}` as pairs, so that a place can be hashed."""
    if not isinstance(raw, Mapping):
        return raw
    return tuple(
        (name, (wanted,) if isinstance(wanted, str) else tuple(wanted))
        for name, wanted in raw.items()
    )


class Series(Strict):
    """Samples of one name of a Prometheus page.

    Attributes:
        metric: name of the sample, as on the page (with its `_total`, `_sum`).
        labels: label -> the one value, or the values, that it must have.
    """

    metric: Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")]
    labels: Annotated[tuple[tuple[str, tuple[str, ...]], ...], BeforeValidator(_labels)] = ()


class PrometheusWhere(Strict):
    """A number on a page of Prometheus text.

    `{metric: [new, old], labels: {…}}` is short for the same labels under several names.

    Attributes:
        any_of: what it has been called; the first that the page has counts.
        per: labels that tell things apart. Series that are alike in all of these say the same
            thing several times (a board once per MIG instance, a token once per tensor rank), and
            the greatest of them counts, once.
        take: what becomes of several things: `only` one may be there; their `sum` or `mean`;
            `count` adds counters up and bridges the restart of one of them.
        row: the label that holds the number of the row, in a table.
        blanks: how the exporter writes "no value" as a number; see `drivers.prometheus.blanks`.
        text: of identity, the label whose text is wanted, not the sample's number.
    """

    any_of: Annotated[tuple[Series, ...], Field(min_length=1, max_length=8)]
    per: tuple[str, ...] = ()
    take: Literal["only", "sum", "mean", "count"] = "only"
    row: str | None = None
    blanks: Literal["dcgm", "dcgm_int64"] | None = None
    text: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, raw: object) -> object:
        if not isinstance(raw, Mapping) or "metric" not in raw:
            return raw
        rest = {key: value for key, value in raw.items() if key not in ("metric", "labels")}
        if "any_of" in rest:
            raise ValueError("name `metric` or `any_of`, not both")
        names = [raw["metric"]] if isinstance(raw["metric"], str) else raw["metric"]
        return rest | {"any_of": [{"metric": n, "labels": raw.get("labels", {})} for n in names]}


class Where(Strict):
    """Where a value is; exactly one of the protocols.

    Attributes:
        variable: what an SNMP agent calls it in the profile's `variables`; several when firmwares
            differ, `*` for the row's name.
    """

    modbus: ModbusWhere | None = None
    snmp: SnmpWhere | None = None
    mqtt: MqttWhere | None = None
    prometheus: PrometheusWhere | None = None
    dsx: DsxWhere | None = None
    variable: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()

    @model_validator(mode="after")
    def _one(self) -> Where:
        named = sum(getattr(self, protocol) is not None for protocol in _PROTOCOLS)
        if named + bool(self.variable) != 1:
            raise ValueError(f"name exactly one of {', '.join(_PROTOCOLS)}, variable")
        return self

    @property
    def protocol(self) -> str:
        """Which of the protocols it names."""
        if self.variable:
            return "snmp"
        return next(p for p in _PROTOCOLS if getattr(self, p) is not None)


class UnitSwitch(Strict):
    """A unit that people can change on the device: where it says which, and what the codes mean.

    Codes are numbers, or the device's own words.
    """

    at: Where
    codes: Mapping[int | str, str] = Field(min_length=1)


class Variables(Strict):
    """A table of an SNMP agent in which variables are found by their names.

    Their numbers move with the hardware and the firmware; their names do not.

    Attributes:
        names, values: columns; the rest of an OID is the same in both.
        scales: column with the scale of each: n above 0 multiplies, n below 0 divides by -n.
        scales_divide: the scales are divisors, all of them: 10 is tenths.
        twins: variables of one name say the same thing (in other units): the first counts.
            Without it a name that stands twice is nobody's.
        units: column with the unit of each, a text.
        unit_names: the device's word for a unit -> ours; words that are ours need no entry.
    """

    names: Oid
    values: Oid
    scales: Oid | None = None
    scales_divide: bool = False
    twins: bool = False
    units: Oid | None = None
    unit_names: Mapping[str, str] = Field(default_factory=dict)
