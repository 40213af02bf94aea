"""Who is in the fleet: how many of each protocol, in which state, read by which profile.

Every twentieth device is slow and two of twenty are dead. What the healthy ones answer moves and
agrees with physics, so that only a fault of ours can make a reading less than good.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from drivers.catalog import FOLDER, read_profile
from drivers.profile import Profile
from drivers.profile.binding import Binding, BoundPoint, bind

PROTOCOLS: Final = ("snmp", "modbus", "mqtt")
#: one slow device answers after this; the next one only after a request has timed out (1 s)
SLOW_S: Final = (0.7, 3.0)
#: distinct looks at a device, served in turn: what never moves is read from memory, or doubted
VARIANTS: Final = 32
_CLASS: Final = {"fast": {"period": "1 s", "stale_after": "5 s"}}


@dataclass(frozen=True)
class Fleet:
    """How many devices of each protocol, and how often they are read.

    Attributes:
        sick: whether a tenth is dead and a twentieth slow; else all are healthy.
    """

    snmp: int = 0
    modbus: int = 0
    mqtt: int = 0
    period_s: float = 2.0
    sick: bool = True

    def count(self, protocol: str) -> int:
        """Devices of one protocol."""
        return int(getattr(self, protocol))

    def state(self, number: int) -> str:
        """`healthy`, `slow` or `dead`."""
        if not self.sick:
            return "healthy"
        return {3: "dead", 13: "dead", 8: "slow"}.get(number % 20, "healthy")

    def healthy(self, protocol: str) -> list[int]:
        """Numbers of those that answer at once."""
        return [i for i in range(self.count(protocol)) if self.state(i) == "healthy"]


def delay_s(number: int) -> float:
    """How long a slow device takes for an answer."""
    return SLOW_S[number // 20 % len(SLOW_S)]


def name_of(protocol: str, number: int) -> str:
    """The device's name, and its topic."""
    return f"{protocol}-{number:04d}"


def host_of(protocol: str, number: int) -> str:
    """An address of 127.0.0.0/8 that no other device has."""
    return f"127.{10 + PROTOCOLS.index(protocol)}.{number // 250}.{number % 250 + 1}"


@cache
def profile_of(protocol: str) -> Profile:
    """The profile of a protocol's devices; all of its points are read in each look."""
    if protocol == "snmp":
        shipped = read_profile(FOLDER / "pdu" / "apc-rpdu2.yaml")
        points = tuple(p.model_copy(update={"poll": "fast"}) for p in shipped.points)
        return shipped.model_copy(update={"points": points})
    return Profile.model_validate(_MODBUS if protocol == "modbus" else _MQTT)


#: rows with which a profile has 40 values, 120 registers and 60 values
PARAMETERS: Final = {
    "snmp": {"phases": "3", "outlets": "6", "sensors": "1"},
    "modbus": {"inputs": "40", "outlets": "20"},
    "mqtt": {"outlets": "20"},
}
#: what is counted of each look
UNITS_OF_LOOK: Final = {"snmp": 40, "modbus": 120, "mqtt": 60}


def binding_of(protocol: str, number: int, period_s: float) -> Binding:
    """One device's profile, bound."""
    name = name_of(protocol, number)
    return bind(profile_of(protocol), name, PARAMETERS[protocol], period_s=period_s)


def reading_of(point: BoundPoint, variant: int = 0) -> float:
    """What a healthy device says of a point at one of its looks, in the kind's unit.

    All of a look agrees with physics: apparent power is V x I, active power 0.98 of it.
    """
    part, kind = point.spec.id.part.partition(".")[0], point.spec.id.kind
    volts, amperes = 228.0 + variant % 5, 4.0 + 0.1 * (variant % 16)
    phases = 3.0 if part == "total" else 1.0
    if part == "outlet":
        amperes *= 0.5
    return {
        "voltage": volts,
        "current": amperes,
        "apparent_power": phases * volts * amperes,
        "active_power": 0.98 * phases * volts * amperes,
        "power_factor": 0.98,
        "energy": 1_234_500.0,
        "state": 2.0,
        "temperature": 24.0 + 0.1 * (variant % 7),
        "humidity": 0.45 + 0.01 * (variant % 3),
    }[kind]


def _row(part: str, kind: str, table: str, at: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"part": f"{part}.*", "kind": kind, "table": table, "at": at} | more


def _registers(address: int, kind: str, stride: int) -> dict[str, Any]:
    return {"modbus": {"address": address, "type": kind, "stride": stride}}


def _path(key: str) -> dict[str, Any]:
    return {"mqtt": {"path": [key, "row"], "time": ["utc_ms"]}}


#: 40 words, 20 long counters and 20 floats in one block of 120 registers
_MODBUS: Final[dict[str, Any]] = {
    "profile": "bench/registers",
    "title": "120 registers in one block",
    "source": "this bench",
    "protocol": "modbus",
    "verified": "sim",
    "classes": _CLASS,
    "tables": {"inputs": {"rows": 40}, "outlets": {"rows": 20}},
    "modbus": {"max_block": 120},
    "points": [
        _row("sensor", "temperature", "inputs", _registers(0, "s16", 1), scale=0.1)
        | {"sentinels": [32767]},
        _row("outlet", "energy", "outlets", _registers(40, "u32", 2), scale=0.1, unit="kWh")
        | {"sentinels": [-1]},
        _row("outlet", "active_power", "outlets", _registers(80, "f32", 2), unit="W")
        | {"plausible": ["0 kW", "10 kW"]},
    ],
}
#: three arrays of 20 in one message
_MQTT: Final[dict[str, Any]] = {
    "profile": "bench/message",
    "title": "60 values in one message",
    "source": "this bench",
    "protocol": "mqtt",
    "verified": "sim",
    "classes": _CLASS,
    "tables": {"outlets": {"rows": 20}},
    "points": [
        _row("outlet", "active_power", "outlets", _path("power_w"), plausible=["0 kW", "10 kW"]),
        _row("outlet", "current", "outlets", _path("current_a")),
        _row("outlet", "energy", "outlets", _path("energy_wh")),
    ],
}
