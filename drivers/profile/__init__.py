"""Device profiles: what a device is, as data in a closed vocabulary.

A profile is one YAML file under drivers/profiles/. It holds no templates, expressions or code:
every key is listed here, and each is implemented once. The same profile drives the real device
(`drivers.device`) and, read backwards, the simulator that impersonates it (`drivers.sim`).
The guide for authors is docs/profiles.md.
"""

from drivers.profile.checks import Check, Unchecked
from drivers.profile.places import (
    REGISTERS,
    DsxWhere,
    ModbusWhere,
    MqttWhere,
    Oid,
    PrometheusWhere,
    Series,
    SnmpWhere,
    UnitSwitch,
    Variables,
    Where,
    quantity_of,
    unit_factors,
)
from drivers.profile.points import PointEntry, Simulated, Sum, Write, wheres
from drivers.profile.schema import (
    WRITABLE_ANYWHERE,
    Availability,
    FirmwareRange,
    Identity,
    IdentitySource,
    Match,
    ModbusLimits,
    PollClass,
    Profile,
    Quirk,
    Table,
)

__all__ = [
    "REGISTERS",
    "WRITABLE_ANYWHERE",
    "Availability",
    "Check",
    "DsxWhere",
    "FirmwareRange",
    "Identity",
    "IdentitySource",
    "Match",
    "ModbusLimits",
    "ModbusWhere",
    "MqttWhere",
    "Oid",
    "PointEntry",
    "PollClass",
    "Profile",
    "PrometheusWhere",
    "Quirk",
    "Series",
    "Simulated",
    "SnmpWhere",
    "Sum",
    "Table",
    "Unchecked",
    "UnitSwitch",
    "Variables",
    "Where",
    "Write",
    "quantity_of",
    "unit_factors",
    "wheres",
]
