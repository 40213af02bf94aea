"""The shape of a device profile: what a device is, as data in a closed vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from drivers.profile.checks import Check, Unchecked
from drivers.profile.places import (
    DurationS,
    Index,
    Oid,
    SnmpWhere,
    Strict,
    Variables,
    Where,
)
from drivers.profile.points import PointEntry, Sum, wheres
from drivers.profile.rows import NAMED, key_of, name_of, shape_of

Verified = Literal["document", "capture", "sim", "bench", "field"]
#: Levels of proof that allow writing to any address; `sim` allows it on loopback only.
WRITABLE_ANYWHERE: frozenset[str] = frozenset({"bench", "field"})

Quirk = Literal[
    "close_after_each",  # Modbus: the device hangs up after an answer, or wants us to
    "pause_after_connect",  # Modbus: requests in the first 1 to 2 s after connecting are ignored
    "pause_between_requests",  # Modbus: a request less than 50 ms after an answer is ignored
    "single_client",  # Modbus: one client at a time; let go after each look, so that others may
    "one_field_per_request",  # Modbus: never read two points at once
    "coils_from_zero",  # Modbus: a read of bits must begin at bit 0
    "no_getbulk",  # SNMP: walk with GETNEXT
]


class Table(Strict):
    """Rows of like things: phases, outlets, pumps.

    Attributes:
        rows: how many there are, or which, unless the facility file (or a walk) says otherwise.
        first: number of the first row.
        most: rows beyond this are not believed.
        walk: SNMP column whose rows tell which exist, with the shape of its index.
        absent: values in that column that say that there is no such row.
        present: values that say that there is one, where all others say that there is none.
        variable: the same for variables that are found by name: a name with `*` for the row.
    """

    rows: Annotated[int, Field(ge=0, le=512)] | tuple[int | str, ...]
    first: Annotated[int, Field(ge=0, le=1)] = 1
    most: Annotated[int, Field(ge=1, le=512)] = 64
    walk: SnmpWhere | None = None
    absent: tuple[int | str, ...] = ()
    present: tuple[int | str, ...] = ()
    variable: str | None = None


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


class FirmwareRange(Strict):
    """Firmware versions, compared number by number ("2.10" is after "2.9")."""

    at_least: str | None = None
    below: str | None = None


class Match(Strict):
    """How a device is known; all that is said must hold. See `drivers.recognising`.

    Attributes:
        sys_object_ids: its sysObjectID equals one of these or lies below.
        describes: its sysDescr holds one of these texts.
        answers: variables that it must have, where nothing else tells siblings apart.
        firmware: versions whose scales are the profile's; who reports none fits none.
    """

    sys_object_ids: tuple[Oid, ...] = ()
    describes: tuple[str, ...] = ()
    answers: tuple[Oid, ...] = ()
    firmware: FirmwareRange | None = None


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


class Availability(Strict):
    """Where a device that publishes says whether it is there, usually by its last will.

    Attributes:
        topic: as of a place in a message, without a row.
        path: into a JSON payload; empty for a plain one.
        online, offline: what it says then.
    """

    topic: str = "availability"
    path: tuple[str, ...] = ()
    online: str = "online"
    offline: str = "offline"


class Profile(Strict):
    """One kind of device.

    Attributes:
        profile: its name; also the file's path below drivers/profiles.
        sums: points that are added up from the rows of a table.
        source: where the register map or MIB comes from.
        verified: how sure we are; see `WRITABLE_ANYWHERE`.
        checks: physics that the profile was held against; every other is asked too, where a
            device has the points for it.
        unchecked: physics that does not hold for this kind of device, and why.
        availability: MQTT: where the device says that it is there, or gone.
    """

    profile: str
    title: str
    source: str
    protocol: Literal["modbus", "snmp", "mqtt", "prometheus", "dsx"]
    verified: Verified
    match: Match = Field(default_factory=Match)
    identity: Identity = Field(default_factory=Identity)
    classes: Mapping[str, PollClass] = Field(min_length=1)
    tables: Mapping[str, Table] = Field(default_factory=dict)
    variables: Variables | None = None
    points: tuple[PointEntry, ...] = Field(min_length=1)
    sums: tuple[Sum, ...] = ()
    checks: tuple[Check, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    modbus: ModbusLimits = Field(default_factory=ModbusLimits)
    availability: Availability = Field(default_factory=Availability)

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
            if entry.at.variable and (self.variables is None or entry.unit_from or entry.digits):
                raise ValueError(
                    f"{name}: a variable needs the profile's `variables`, which tell its unit"
                )
            for where in wheres(entry):
                if where.protocol != self.protocol:
                    raise ValueError(f"{name}: {where.protocol} in a {self.protocol} profile")
            if entry.write is not None and self.verified in ("document", "capture"):
                raise ValueError(
                    f"{name}: writing needs `verified: bench` or `field` (or `sim` for loopback)"
                )
        for name, table in self.tables.items():
            if not isinstance(table.rows, int):
                shape = self.shape(name)
                if any(name_of(key_of(row, shape)) != row for row in table.rows):
                    raise ValueError(f"{name}: rows are not as they are called")
            else:
                self.shape(name)
        for total in self.sums:
            name = f"{total.part}:{total.kind}"
            if (total.part, total.kind) in seen:
                raise ValueError(f"{name} stands twice")
            seen.add((total.part, total.kind))
            classes = {entry.poll for entry in self.summed(total)}
            if len(classes) != 1:
                why = "no points" if not classes else "points of several poll classes"
                raise ValueError(f"{name}: {why} {total.of}.*:{total.kind} to add up")
        return self

    def summed(self, total: Sum) -> tuple[PointEntry, ...]:
        """The entries whose points add up to a sum: a table's, or those that stand side by side."""
        rows = f"{total.of}."
        return tuple(e for e in self.points if e.kind == total.kind and e.part.startswith(rows))

    @property
    def names(self) -> frozenset[str]:
        """Names in its topics that the facility file must give, as parameters of the device."""
        topics = [w.mqtt for e in self.points for w in wheres(e) if w.mqtt is not None]
        return frozenset(name for mqtt in topics for name in mqtt.names) - {"row"}

    def shape(self, table: str) -> Index:
        """The index whose words tell how the rows of a table are called.

        Raises:
            ValueError: places of the table do not agree on it.
        """
        walk = self.tables[table].walk
        indexes = {} if walk is None else {f"{table}.walk": walk.index}
        for entry in self.points:
            if entry.table == table:
                for where in wheres(entry):
                    if where.snmp is not None and any(isinstance(a, str) for a in where.snmp.index):
                        indexes[f"{entry.part}:{entry.kind}"] = where.snmp.index
                    if where.mqtt is not None and "row" in where.mqtt.names:
                        indexes[f"{entry.part}:{entry.kind}"] = NAMED
        return shape_of(indexes)
