"""A shared capture read once by the profile that recognises it, and the test data's rows."""

from __future__ import annotations

import asyncio
import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from drivers.catalog import profiles
from drivers.device import ProfiledDevice
from drivers.finding import NamedVariables, Unclear, claim_of, find_rows, recognise
from drivers.physics import CheckResult, run_checks
from drivers.profile import Profile
from drivers.profile.binding import BoundPoint, SnmpAt, bind
from drivers.profile.codec import Decoded
from facility.clock import SystemClock
from facility.points import Grade, PointSpec, grade_of
from tests.captures.shared.recording import Recording

#: from our canonical unit to the one in which the test data states a class
STATED = {
    "power_consumed": 0.001,
    "humidity": 100.0,
    "load": 100.0,
    "percent": 100.0,
    "charge": 100.0,
    "runtime": 1.0 / 60.0,
}


@dataclass(frozen=True)
class Row:
    """One sensor of the test data: what its raw is taken for, in the unit of its class."""

    oid: str
    raw: str
    sensor: str
    expected: float


@dataclass(frozen=True)
class Looked:
    """One capture through its profile."""

    profile: Profile
    readings: tuple[tuple[PointSpec, BoundPoint | None, Decoded], ...]
    checks: tuple[CheckResult, ...]
    by_oid: Mapping[str, tuple[tuple[PointSpec, Decoded], ...]]

    def value(self, name: str) -> Decoded:
        """The reading of `part:kind`."""
        part, _, kind = name.partition(":")
        return next(d for s, _, d in self.readings if (s.id.part, s.id.kind) == (part, kind))


def folder() -> Path:
    """Where the captures are; skips the test that asks where there are none."""
    named = os.environ.get("WATTKEEPER_CAPTURES")
    if named is None or not Path(named).is_dir():
        pytest.skip("WATTKEEPER_CAPTURES does not name the folder of shared captures")
    return Path(named)


def names() -> list[str]:
    """Every capture in the folder; none without one."""
    named = os.environ.get("WATTKEEPER_CAPTURES")
    found = Path(named, "snmprec").glob("*.snmprec") if named else ()
    return sorted(path.stem for path in found)


@cache
def recording(name: str) -> Recording:
    """A capture as an agent."""
    return Recording(folder() / "snmprec" / f"{name}.snmprec")


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The test data's opinion of the variables that the recording holds."""
    with (folder() / "expected" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        told = [row for row in csv.DictReader(file) if row["raw_vs_expected"] != "no-raw"]
    return tuple(
        Row(
            row["oid"].lstrip("."),
            row["raw"],
            row["class"],
            float(row["expected"]) if row["func"] or not _scaled(row) else _product(row),
        )
        for row in told
    )


def _scaled(row: Mapping[str, str]) -> bool:
    try:
        _product(row)
    except ValueError:
        return False
    return True


def _product(row: Mapping[str, str]) -> float:
    return float(row["raw"]) * float(row["multiplier"] or 1) / float(row["divisor"] or 1)


@cache
def looked(name: str) -> Looked | None:
    """The capture as our drivers read it; None where no profile knows the device."""
    return asyncio.run(_look(recording(name)))


async def _look(agent: Recording) -> Looked | None:
    known = [p for p in profiles().values() if p.protocol == "snmp"]
    claim = await claim_of(agent, known)
    assert claim is not None
    try:
        profile = recognise(known, claim)
    except Unclear as unclear:
        if unclear.alike:
            raise
        return None
    found = await find_rows(profile, agent)
    wire = NamedVariables(agent, profile.variables, SystemClock())
    device = ProfiledDevice(bind(profile, "d", found=found), wire, SystemClock())
    readings: list[tuple[PointSpec, BoundPoint | None, Decoded]] = []
    by_oid: dict[str, tuple[tuple[PointSpec, Decoded], ...]] = {}
    for layout in device.layouts:
        points = device.binding.points[layout.key]
        for place, decoded in enumerate(await device.look(layout)):
            point = points[place] if place < len(points) else None
            spec = layout.points[place]
            readings.append((spec, point, decoded))
            if point is not None and isinstance(point.at, SnmpAt):
                oid = ".".join(map(str, wire.oid(point.at)))
                by_oid[oid] = (*by_oid.get(oid, ()), (spec, decoded))
    believed = {
        (s.id.part, s.id.kind): d.value
        for s, _, d in readings
        if grade_of(d.quality) is not Grade.BAD
    }
    return Looked(profile, tuple(readings), tuple(run_checks(device.binding, believed)), by_oid)
