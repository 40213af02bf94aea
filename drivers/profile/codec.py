"""Raw <-> value, in both directions, for every protocol.

Decoding never raises for what a wire can carry: nonsense becomes NaN with a flaw. Sentinels are
compared with the raw pattern before any scaling, per point. Encoding is the exact reverse and is
what the simulator and writes use: `decode(encode(x))` is x within half a count.

A *raw* is what a transport hands over: a tuple of registers or bits (Modbus), an int, text or
bytes (SNMP), or a JSON scalar (MQTT). A `Flaw` in its place means that there was none.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from drivers.profile import ModbusWhere
from drivers.profile.binding import At, BoundPoint, ModbusAt, SnmpAt
from facility.kinds import KINDS, Nature
from facility.points import Flaw, Grade, quality

Raw = int | float | bool | str | bytes | tuple[int, ...]
Answer = Raw | Flaw

_FORMATS: Final[Mapping[str, str]] = {
    "u16": ">H",
    "s16": ">h",
    "u32": ">I",
    "s32": ">i",
    "u64": ">Q",
    "s64": ">q",
    "f32": ">f",
    "f64": ">d",
}
#: what a device may write for a number; possessive, or 64 KiB of digits and an x take a minute
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]{1,4})?")
#: decimals that no meter has; more means that the digits themselves are nonsense
MAX_DIGITS: Final = 12
#: no reading of anything is larger; keeps hostile numbers out of the arithmetic
MAX_NUMBER: Final = 2.0**64


@dataclass(frozen=True, slots=True)
class Decoded:
    """A value with its quality byte; NaN exactly when BAD.

    Attributes:
        raw: what the wire carried, as text for people.
    """

    value: float
    quality: int
    raw: str | None = None


GOOD: Final = quality(Grade.GOOD)


def bad(flaw: Flaw, raw: str | None = None) -> Decoded:
    """No value, for a reason."""
    return Decoded(math.nan, quality(Grade.BAD, flaw), raw)


def registers_to_bytes(where: ModbusWhere, registers: tuple[int, ...]) -> bytes:
    """Registers in the order of the type's bytes, most significant first."""
    ordered = registers[::-1] if where.word_order == "little" else registers
    swap = where.byte_order == "little"
    pairs = (((r & 0xFF) << 8 | r >> 8) if swap else r for r in ordered)
    return b"".join(pair.to_bytes(2, "big") for pair in pairs)


def bytes_to_registers(where: ModbusWhere, data: bytes) -> tuple[int, ...]:
    """The reverse of `registers_to_bytes`."""
    words = [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]
    if where.byte_order == "little":
        words = [(w & 0xFF) << 8 | w >> 8 for w in words]
    return tuple(words[::-1] if where.word_order == "little" else words)


def unpack(at: At, raw: Raw) -> tuple[int | float | str, int | None] | None:
    """The number or text in a raw, and its bit pattern where the type has one.

    Returns:
        None when the raw cannot be of this type.
    """
    if isinstance(at, ModbusAt):
        return _unpack_registers(at.where, raw)
    if isinstance(raw, bool):
        return int(raw), None
    if isinstance(raw, bytes):
        text = raw.decode("utf-8", "replace").replace("\x00", "")
        return text, None
    if isinstance(raw, int | float | str):
        return raw, None
    return None


def _unpack_registers(where: ModbusWhere, raw: Raw) -> tuple[int | float | str, int | None] | None:
    if not isinstance(raw, tuple) or len(raw) != where.count:
        return None
    if not all(0 <= register <= 0xFFFF for register in raw):
        return None
    if where.type == "bit":
        return (raw[0] >> where.bit) & 1 if where.bit is not None else int(bool(raw[0])), None
    if where.type == "text":
        order: Literal["big", "little"] = where.byte_order
        data = b"".join(register.to_bytes(2, order) for register in raw)
        if where.chars != "both":
            data = data[0 if where.chars == "high" else 1 :: 2]
        return data.split(b"\x00")[0].decode("utf-8", "replace"), None
    data = registers_to_bytes(where, raw)
    number: int | float = struct.unpack(_FORMATS[where.type], data)[0]
    if where.bits is not None:
        field = (int(number) >> where.bits[0]) & ((2 << where.bits[1] - where.bits[0]) - 1)
        return field, field
    return number, int.from_bytes(data, "big")


def is_sentinel(point: BoundPoint, number: int | float | str, pattern: int | None) -> bool:
    """Whether a raw is one of the point's own words for "no value".

    An integer sentinel of a register type is compared as a bit pattern, so 65535 and -1 are the
    same word in a u16, and a pattern can name one of the many NaNs of an f32.
    """
    bits = 16 * point.at.count if isinstance(point.at, ModbusAt) else 0
    for sentinel in point.entry.sentinels:
        if isinstance(sentinel, str):
            if isinstance(number, str) and number.strip() == sentinel.strip():
                return True
        elif pattern is not None:
            if pattern == sentinel % (1 << bits):
                return True
        elif not isinstance(number, str) and number == sentinel:
            return True
    return False


def decode(
    point: BoundPoint, raw: Answer, digits: Answer | None = None, unit: Answer | None = None
) -> Decoded:
    """The value of a point in its canonical unit, or why there is none.

    Args:
        point: what the raw is of.
        raw: as the transport handed it over.
        digits: raw of the device's own number of decimals (or scale), where the point has one.
        unit: raw of the device's own unit setting, where the point has one.
    """
    if isinstance(raw, Flaw):
        return bad(raw)
    shown = shown_raw(raw)
    unpacked = unpack(point.at, raw)
    if unpacked is None or (isinstance(raw, bool) and not _may_be_truth(point)):
        return bad(Flaw.UNDECODABLE, shown)
    number, pattern = unpacked
    if is_sentinel(point, number, pattern):
        return bad(Flaw.SENTINEL, shown)
    if isinstance(number, str):
        parsed = number_in(number)
        if parsed is None:
            return bad(Flaw.UNDECODABLE, shown)
        if is_sentinel(point, parsed, None):
            return bad(Flaw.SENTINEL, shown)
        number = parsed
    if not abs(number) < MAX_NUMBER:  # also false for NaN
        return bad(Flaw.UNDECODABLE, shown)
    if point.entry.absolute:
        number = abs(number)
    if point.entry.codes:
        code = point.entry.codes.get(int(number)) if number == int(number) else None
        if code is None:
            return bad(Flaw.UNDECODABLE, shown)
        number = code
    scale = device_scale(point, digits)
    factors = factors_told(point, unit)
    if isinstance(scale, Flaw):
        return bad(scale, shown)
    if isinstance(factors, Flaw):
        return bad(factors, shown)
    value = (number * point.entry.scale / scale + point.entry.offset) * factors[0] + factors[1]
    return judge(point, value, shown)


def judge(point: BoundPoint, value: float, shown: str | None) -> Decoded:
    """Grade a number in canonical units: implausible is kept and SUSPECT, no number is BAD."""
    if not math.isfinite(value):
        return bad(Flaw.UNDECODABLE, shown)
    if KINDS[point.entry.kind].nature is Nature.STATE and value != math.floor(value):
        return bad(Flaw.UNDECODABLE, shown)
    if not point.spec.low <= value <= point.spec.high:
        return Decoded(value, quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE), shown)
    return Decoded(value, GOOD, shown)


def encode(
    point: BoundPoint, value: float, digits: int = 0, unit: int | str | None = None
) -> Raw | None:
    """The raw that reads as `value` (canonical unit), rounded to the nearest count.

    Args:
        point: what to encode.
        value: finite, in the kind's canonical unit.
        digits: the device's own number of decimals, where the point has one.
        unit: the device's own unit setting, where the point has one.

    Returns:
        None when the type cannot carry the value (out of its range, a code without a raw, or a
        number that would read as a sentinel).
    """
    if not math.isfinite(value):
        return None
    factors = point.factors if unit is None else point.switched.get(unit, point.factors)
    number = (value - factors[1]) / factors[0]
    number = (number - point.entry.offset) * 10.0**digits / point.entry.scale
    if point.entry.codes:
        raws = [raw for raw, code in point.entry.codes.items() if code == round(number)]
        if not raws:
            return None
        number = float(raws[0])
    raw = pack(point.at, number)
    unpacked = None if raw is None else unpack(point.at, raw)
    if unpacked is None or is_sentinel(point, *unpacked):
        return None
    return raw


def pack(at: At, number: float) -> Raw | None:
    """A number as the raw of a place; None when it does not fit."""
    if isinstance(at, ModbusAt):
        return _pack_registers(at.where, number)
    if isinstance(at, SnmpAt):
        whole = round(number)
        if at.where.syntax == "octets":
            return f"{number:.10g}".encode()
        low, high = _SNMP_RANGES.get(at.where.syntax, (-(2**31), 2**31 - 1))
        return whole if low <= whole <= high else None
    return number


_SNMP_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "gauge32": (0, 2**32 - 1),
    "counter32": (0, 2**32 - 1),
    "timeticks": (0, 2**32 - 1),
    "counter64": (0, 2**64 - 1),
}


def _pack_registers(where: ModbusWhere, number: float) -> tuple[int, ...] | None:
    if where.type == "bit":
        return (int(bool(round(number))) << (where.bit or 0),)
    if where.type == "text":
        return None
    shift = 0
    if where.bits is not None:
        shift = where.bits[0]
        if not 0 <= round(number) < 2 << where.bits[1] - shift:
            return None
    try:
        if where.type in ("f32", "f64"):
            data = struct.pack(_FORMATS[where.type], number + 0.0)  # -0.0 goes out as 0.0
            if not math.isfinite(struct.unpack(_FORMATS[where.type], data)[0]):
                return None
        else:
            data = struct.pack(_FORMATS[where.type], round(number) << shift)
    except (struct.error, OverflowError):
        return None
    return bytes_to_registers(where, data)


def sentinel_raw(point: BoundPoint) -> Raw | None:
    """What the device would send for "no value", or None when it has no word for it."""
    for sentinel in point.entry.sentinels:
        if isinstance(sentinel, str):
            return sentinel.encode() if isinstance(point.at, SnmpAt) else sentinel
        if isinstance(point.at, ModbusAt):
            pattern = sentinel % (1 << 16 * point.at.count)
            if point.at.where.bits is not None:
                pattern = sentinel << point.at.where.bits[0]
            return bytes_to_registers(point.at.where, pattern.to_bytes(2 * point.at.count, "big"))
        return sentinel
    return None


def text_of(raw: Answer, at: At, after: str | None = None, until: str | None = None) -> str | None:
    """An identity text: printable, trimmed, cut between two markers; None when it has none."""
    if isinstance(raw, Flaw):
        return None
    unpacked = unpack(at, raw)
    if unpacked is None:
        return None
    text = "".join(c for c in str(unpacked[0]) if c.isprintable()).strip()
    if after is not None:
        _, found, text = text.partition(after)
        if not found:
            return None
        text = text.strip()
    if until is not None:
        text = text.partition(until)[0]
    return text.strip()[:128] or None


def shown_raw(raw: Raw) -> str:
    """A raw as people see it: `27`, `0x0a1b 0x0003`, or a text."""
    if isinstance(raw, tuple):
        return str(raw[0]) if len(raw) == 1 else " ".join(f"0x{r:04x}" for r in raw)
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "replace")[:128]
    return str(raw)[:128]


def _may_be_truth(point: BoundPoint) -> bool:
    """Whether true and false mean something here; `{"temperature": false}` is not 0 degC."""
    return point.spec.kind.nature is Nature.STATE or bool(point.entry.codes)


def number_in(text: str) -> float | None:
    """What a device wrote as a number; Python's own reading would also take 1_000 and such."""
    if _DECIMAL.fullmatch(text.strip(" \t\r\n\0")) is None:
        return None
    number = float(text.strip(" \t\r\n\0"))
    return number if math.isfinite(number) else None


def whole(at: At, raw: Answer) -> int | Flaw:
    """A raw as a whole number (a count of decimals, a unit code), or why it is none."""
    if isinstance(raw, Flaw):
        return raw
    if isinstance(raw, bool):
        return Flaw.UNDECODABLE
    unpacked = unpack(at, raw)
    if unpacked is None or isinstance(unpacked[0], str) or unpacked[0] != unpacked[0] // 1:
        return Flaw.UNDECODABLE
    return int(unpacked[0])


def device_scale(point: BoundPoint, digits: Answer | None) -> float | Flaw:
    """10^digits as the device tells it; without that a number would be off by powers of ten."""
    if point.digits is None:
        return 1.0
    decimals = Flaw.UNDECODABLE if digits is None else whole(point.digits, digits)
    if isinstance(decimals, Flaw):
        return decimals
    if point.divisor_scale:
        return float(decimals) if 0 < decimals <= 10**MAX_DIGITS else Flaw.UNDECODABLE
    if point.signed_scale:
        return _divisor(decimals)
    return float(10**decimals) if 0 <= decimals <= MAX_DIGITS else Flaw.UNDECODABLE


def _divisor(scale: int) -> float | Flaw:
    """What to divide by: n above 0 multiplies, n below 0 divides by -n; 0 says nothing (1)."""
    if abs(scale) > 10**MAX_DIGITS:
        return Flaw.UNDECODABLE
    return float(-scale) if scale < 0 else 1.0 / max(scale, 1)


def factors_told(point: BoundPoint, unit: Answer | None) -> tuple[float, float] | Flaw:
    """Scale and offset of the unit that the device says it uses, or why they are not known."""
    if point.unit_at is None:
        return point.factors
    code: int | str | Flaw
    if unit is not None and isinstance(next(iter(point.switched), None), str):
        code = unit if isinstance(unit, Flaw) else text_of(unit, point.unit_at) or ""
    else:
        code = Flaw.UNDECODABLE if unit is None else whole(point.unit_at, unit)
    if isinstance(code, Flaw):
        return code
    return point.switched.get(code, Flaw.UNDECODABLE)
