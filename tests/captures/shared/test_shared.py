"""Every shared capture: the right profile, values that physics agrees with, nothing made up."""

from __future__ import annotations

from collections import Counter

import pytest

from drivers.capture import shown_reading
from facility.points import Grade, PointSpec, flaw_of, grade_of
from tests.captures.shared.facts import read_facts
from tests.captures.shared.reading import STATED, Row, looked, names, recording, rows

FACTS = read_facts()
HERE = [name for name in names() if name in FACTS] or ["none"]
READ = [n for n in HERE if n != "none" and FACTS[n].profile is not None] or ["none"]

#: what devices send for "no value", some of them; at single points they are numbers (`holds`)
SENTINELS = frozenset(
    (
        *("-1", "-410", "-1000", "-999.9", "-9999", "9999", "99999", "32767", "-32768", "655350"),
        *("65534", "65535", "2147483647", "-2147483648", "4294967295", "18446744073709551615"),
    )
)


@pytest.fixture(autouse=True)
def captures_are_there() -> None:
    recording(HERE[0])


def test_every_capture_has_facts() -> None:
    assert set(names()) == set(FACTS)


@pytest.mark.parametrize("name", HERE)
def test_a_capture_is_recognised_as_what_it_is(name: str) -> None:
    seen = looked(name)
    assert (None if seen is None else seen.profile.profile) == FACTS[name].profile
    assert (FACTS[name].profile is None) == bool(FACTS[name].because)


def _agrees(row: Row, spec: PointSpec, value: float) -> bool:
    stated = 100.0 if spec.id.kind == "speed" else STATED.get(row.sensor, 1.0)
    return value * stated == pytest.approx(row.expected, rel=1e-6, abs=5e-3)


def _fault(row: Row, spec: PointSpec, value: float, flaw: str, raw: str | None) -> str | None:
    """Why a reading is not what the test data says; None when it is."""
    if flaw:
        return f"{spec.id.part}:{spec.id.kind} is {flaw}"
    if row.sensor == "state":
        return None if raw == row.raw else f"raw {raw}"
    if _agrees(row, spec, value):
        return None
    return f"{spec.id.part}:{spec.id.kind} = {value:g} {spec.kind.unit}"


@pytest.mark.parametrize("name", READ)
def test_each_value_is_the_test_datas_or_differs_for_a_stated_reason(name: str) -> None:
    seen, facts = looked(name), FACTS[name]
    assert seen is not None
    wrong: dict[str, str] = {}
    stated: set[str] = set()
    for row in rows(name):
        for spec, decoded in seen.by_oid.get(row.oid, ()):
            none = grade_of(decoded.quality) is Grade.BAD
            flaw = flaw_of(decoded.quality).name if none else ""
            fault = _fault(row, spec, decoded.value, flaw, decoded.raw)
            if fault is not None and not (none and row.raw in facts.nothing):
                key = row.sensor if row.sensor in facts.differs else row.oid
                stated.add(key)
                if key not in facts.differs:
                    wrong[row.oid] = f"{fault}; there {row.expected:g} {row.sensor} ({row.raw})"
    assert not wrong
    assert set(facts.differs) == stated, "a stated difference is none"


@pytest.mark.parametrize("name", READ)
def test_what_is_read_of_a_capture_does_not_shrink(name: str) -> None:
    seen, facts = looked(name), FACTS[name]
    assert seen is not None
    read = Counter(row.sensor for row in rows(name) if row.oid in seen.by_oid)
    every = Counter(row.sensor for row in rows(name))
    assert dict(read) == facts.reads
    assert {sensor for sensor in every if read[sensor] < every[sensor]} == set(facts.leaves)
    assert all(facts.leaves.values())


@pytest.mark.parametrize("name", READ)
def test_physics_holds_in_a_capture(name: str) -> None:
    seen = looked(name)
    assert seen is not None
    assert not [f"{c.check}, {c.part}: {c.detail}" for c in seen.checks if not c.ok]
    assert len(seen.checks) >= FACTS[name].checks


@pytest.mark.parametrize("name", READ)
def test_numbers_checked_by_hand(name: str) -> None:
    seen = looked(name)
    assert seen is not None
    for reading, wanted in FACTS[name].readings.items():
        shown = shown_reading(seen.value(reading))
        assert shown == (wanted if isinstance(wanted, str) else pytest.approx(wanted)), reading


@pytest.mark.parametrize("name", READ)
def test_no_word_for_nothing_becomes_a_number(name: str) -> None:
    seen, facts = looked(name), FACTS[name]
    assert seen is not None
    stored = {
        f"{spec.id.part}:{spec.id.kind}": decoded.raw
        for spec, _, decoded in seen.readings
        if grade_of(decoded.quality) is not Grade.BAD and decoded.raw in SENTINELS
    }
    assert set(stored) == set(facts.holds), stored
