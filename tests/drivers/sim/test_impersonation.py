"""Profiles read backwards: what is impersonated is read as it was meant."""

from __future__ import annotations

import pytest

from drivers.catalog import profiles
from drivers.profile import Profile
from drivers.profile.binding import bind
from drivers.profile.codec import decode
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import Instruments
from facility.points import Flaw, Grade, flaw_of, grade_of

ASKED = sorted(name for name, p in profiles().items() if p.protocol in ("modbus", "snmp"))


@pytest.fixture(params=ASKED)
def profile(request: pytest.FixtureRequest) -> Profile:
    return profiles()[request.param]


def readable(who: Impersonation) -> dict[str, tuple[float, Grade, Flaw]]:
    told = {}
    for point in who.binding.all():
        decoded = decode(
            point,
            who.answer(point.at),
            who.answer(point.digits) if point.digits else None,
            who.answer(point.unit_at) if point.unit_at else None,
        )
        key = f"{point.spec.id.part}:{point.spec.id.kind}"
        told[key] = (decoded.value, grade_of(decoded.quality), flaw_of(decoded.quality))
    return told


def test_every_point_reads_back_what_the_plant_holds(profile: Profile) -> None:
    binding = bind(profile, "d")
    middle = {}
    for point in binding.all():
        states = [c for c, _ in point.spec.states]
        low, high = max(point.spec.low, 0.0), min(point.spec.high, 1e3)
        value = float(states[0]) if states else low + 0.3 * (high - low)
        middle[f"{point.spec.id.part}:{point.spec.id.kind}"] = value if states else round(value)
    if "total:leak" in middle:
        middle["total:leak"] = 1.0
    seen = readable(Impersonation(profile, "d", Instruments.of("d", middle)))
    for point in binding.all():
        name = f"{point.spec.id.part}:{point.spec.id.kind}"
        value, grade, _ = seen[name]
        digits = 10.0 ** -(point.entry.simulated.digits if point.digits else 0)
        count = abs(point.entry.scale * point.factors[0]) * digits
        assert grade is Grade.GOOD, name
        assert value == pytest.approx(middle[name], abs=0.5 * count + 1e-9), name


def test_what_the_plant_does_not_know_is_never_a_number(profile: Profile) -> None:
    for name, (value, grade, flaw) in readable(Impersonation(profile, "d", Instruments())).items():
        entry = next(
            p.entry
            for p in bind(profile, "d").all()
            if f"{p.spec.id.part}:{p.spec.id.kind}" == name
        )
        if entry.simulated.value is not None:
            assert value == pytest.approx(entry.simulated.value)
        else:
            assert grade is Grade.BAD, name
            assert flaw in (Flaw.SENTINEL, Flaw.REFUSED), name


def test_a_sum_that_the_plant_knows_is_shared_by_the_rows() -> None:
    plant = Instruments.of("u", {"total:active_power": 30_000.0})
    seen = readable(Impersonation(profiles()["ups/rfc1628"], "u", plant))
    assert [seen[f"output.{i}:active_power"][0] for i in (1, 2, 3)] == [10_000.0] * 3


def test_a_set_point_reaches_the_plant_within_its_bounds_only() -> None:
    plant = Instruments.of("c", {"loop.secondary:supply_setpoint": 30.0})
    who = Impersonation(profiles()["cdu/wattkeeper-sim"], "c", plant)
    point = next(p for p in who.binding.all() if p.entry.write)
    assert who.accept(point.at, (3350,)).outcome == "accepted"
    assert plant.written == [("c", "loop.secondary", "supply_setpoint", pytest.approx(33.5))]
    for refused in ((4600,), (1400,), (0x8000,)):
        assert who.accept(point.at, refused).outcome == "rejected"
    other = next(p for p in who.binding.all() if not p.entry.write)
    assert who.accept(other.at, (1,)).detail == "not writable"
    assert len(plant.written) == 1
