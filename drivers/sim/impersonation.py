"""A profile read backwards: what a device of this kind would answer, place by place.

The servers and the in-process transport share it, so a simulated device cannot differ from the
profile that its driver reads it with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drivers.device import identity_places
from drivers.profile import Profile, SnmpWhere, Where, quantity_of
from drivers.profile.binding import (
    At,
    Binding,
    BoundPoint,
    ModbusAt,
    NamedAt,
    SnmpAt,
    bind,
    limits_of,
    resolve,
)
from drivers.profile.codec import Answer, Raw, decode, encode, sentinel_raw
from drivers.sim.source import InstrumentSource
from drivers.transport import WriteReply
from facility.points import Flaw, Grade, grade_of

#: what a simulated device says of itself
CLAIMS: Mapping[str, str] = {
    "vendor": "Wattkeeper",
    "model": "Simulated",
    "firmware": "1.0",
}


class Impersonation:
    """One simulated device."""

    def __init__(
        self,
        profile: Profile,
        device: str,
        source: InstrumentSource,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.binding: Binding = bind(profile, device, parameters, writable=True)
        self.device = device
        self.profile = profile
        self._source = source
        self._points: dict[At, BoundPoint] = {}
        self._aside: dict[At, Raw] = dict(_identity(profile, device))
        for point in self.binding.all():
            self._points.setdefault(point.at, point)
            self._points.setdefault(point.readback, point)
            if point.digits is not None:
                decimals = point.entry.simulated.digits
                self._aside[point.digits] = _raw(point.digits, _told(point, decimals))
            if point.unit_at is not None:
                self._aside[point.unit_at] = _raw(point.unit_at, next(iter(point.switched)))
        taken = {at.oid for at in self.places if isinstance(at, SnmpAt)}
        self._suffixes: dict[str, tuple[int, ...]] = {}
        for named in [at for at in self.places if isinstance(at, NamedAt)]:
            self._name(named)
        for walked, row in _walked(profile, self.binding):
            if walked.oid not in taken:
                self._aside[walked] = row

    @property
    def health(self) -> str:
        """How the device answers now: "ok", "dead", "slow" or "garbage"."""
        return self._source.device_health(self.device)

    @property
    def places(self) -> tuple[At, ...]:
        """Every place that may have an answer."""
        return (*self._points, *self._aside)

    def answer(self, at: At) -> Answer:
        """The raw at a place now; REFUSED where the device has nothing there."""
        point = self._points.get(at)
        if point is None:
            return self._aside.get(at, Flaw.REFUSED)
        spec = point.spec.id
        value = self._source.value(self.device, spec.part, spec.kind)
        if value is None:
            value = self._share(point)
        if value is None:
            value = point.entry.simulated.value
        raw = None
        if value is not None:
            unit = next(iter(point.switched), None)
            raw = encode(point, value, point.entry.simulated.digits if point.digits else 0, unit)
        if raw is None:
            raw = sentinel_raw(point)
        return Flaw.REFUSED if raw is None else raw

    def oid(self, at: SnmpAt) -> tuple[int, ...]:
        """Where a variable stands in the agent's tree, also one that is found by its name."""
        return at.oid + self._suffixes[at.names[0]] if isinstance(at, NamedAt) else at.oid

    def _name(self, at: NamedAt) -> None:
        """Number a variable, as its agent does, and tell its name in the column of names."""
        variables = self.profile.variables
        if variables is not None and at.names[0] not in self._suffixes:
            suffix = ((*at.within, 1)[0], len(self._suffixes) + 1)
            self._suffixes[at.names[0]] = suffix
            column = SnmpWhere(oid=variables.names, syntax="octets")
            self._aside[SnmpAt(column, variables.names + suffix)] = at.names[0].encode()

    def _share(self, point: BoundPoint) -> float | None:
        """An even share of a sum that the plant knows, for a row that it does not."""
        for total in self.profile.sums:
            entries = {id(entry) for entry in self.profile.summed(total)}
            if id(point.entry) in entries:
                whole = self._source.value(self.device, total.part, total.kind)
                rows = sum(id(other.entry) in entries for other in self.binding.all())
                return None if whole is None else whole / rows
        return None

    def accept(self, at: At, raw: Raw) -> WriteReply:
        """Carry a write to the plant; refuse what the profile does not allow."""
        point = self._points.get(at)
        limits = limits_of(point.entry) if point is not None else None
        if point is None or limits is None or point.at != at:
            return WriteReply("rejected", "not writable")
        digits = self._aside.get(point.digits) if point.digits else None
        unit = self._aside.get(point.unit_at) if point.unit_at else None
        decoded = decode(point, raw, digits, unit)
        slack = 1e-9 + 0.5 * abs(point.entry.scale * point.factors[0])
        if grade_of(decoded.quality) is Grade.BAD or not (
            limits.low - slack <= decoded.value <= limits.high + slack
        ):
            return WriteReply("rejected", "bad value")
        spec = point.spec.id
        write = point.entry.write
        falls_back = None
        if write is not None and write.watchdog is not None and write.fallback is not None:
            falls_back = quantity_of(write.fallback, point.spec.kind), write.watchdog
        self._source.write(self.device, spec.part, spec.kind, decoded.value, falls_back=falls_back)
        return WriteReply("accepted")


def _told(point: BoundPoint, decimals: int) -> int:
    """What a device says where it tells its decimals: their number, a signed scale, a divisor."""
    scale = int(10**decimals)
    if point.divisor_scale:
        return scale
    return -scale if point.signed_scale else decimals


def _raw(at: At, told: int | str) -> Raw:
    if isinstance(told, str):
        return told.encode()
    return (told,) if isinstance(at, ModbusAt) else told


def _identity(profile: Profile, device: str) -> Iterator[tuple[At, Raw]]:
    versions = profile.match.firmware
    firmware = (versions and versions.at_least) or CLAIMS["firmware"]
    claims = {**CLAIMS, "serial": device, "firmware": firmware}
    for at, wanted in identity_places(profile.identity).items():
        parts = (
            f"{s.after or ''}{claims[name]}{'' if s.until is None else s.until}"
            for name, s in wanted
        )
        text = " ".join(parts)
        if isinstance(at, SnmpAt):
            yield at, text.encode()
        elif isinstance(at, ModbusAt) and at.where.type == "text":
            padded = text.encode()[: 2 * at.count].ljust(2 * at.count, b"\x00")
            words = (padded[i : i + 2] for i in range(0, len(padded), 2))
            yield at, tuple(int.from_bytes(w, at.where.byte_order) for w in words)


def _walked(profile: Profile, binding: Binding) -> Iterator[tuple[SnmpAt, int]]:
    """The rows of tables whose column is walked but holds no point of its own."""
    for name, table in profile.tables.items():
        if table.walk is None:
            continue
        rows = {p.row: None for p in binding.all() if p.entry.table == name and p.row is not None}
        for row in rows:
            at = resolve(Where(snmp=table.walk), row)
            if isinstance(at, SnmpAt):
                wanted = (*table.present, row, 1, 2)
                numbers = (n for n in wanted if isinstance(n, int) and n not in table.absent)
                yield at, next(numbers)
