"""The vocabulary is closed: what a profile may not say is refused, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from drivers.catalog import offers, profiles, read_profile
from drivers.finding import Claim, Unclear, recognise
from drivers.profile import Profile, wheres
from drivers.profile.binding import bind, limits_of
from drivers.profile.checks import Check
from facility.errors import ConfigError
from facility.kinds import KINDS
from tests.conftest import ROOT
from tests.drivers.wires import binding_of, profile_of

POINT: dict[str, Any] = {"part": "total", "kind": "active_power", "at": {"modbus": {"address": 0}}}
WRITE = {"min": "15 degC", "max": "45 degC", "step": "0.5 K"}
SETPOINT = POINT | {"kind": "supply_setpoint", "write": WRITE}


def change(**more: Any) -> dict[str, Any]:
    return POINT | more


@pytest.mark.parametrize(
    ("point", "why"),
    [
        (change(kind="powerr"), "no kind 'powerr'"),
        (change(unit="degC"), "is no unit of active_power"),
        (change(scale=0), "scale 0"),
        (change(formula="x * 2"), "Extra inputs"),
        (change(part="Total Power"), "is no part"),
        (change(part="phase.*"), "ends in .* exactly when"),
        (change(at={"modbus": {"address": 70000}}), "less than or equal to 65535"),
        (change(at={"modbus": {"address": 65535, "type": "u32"}}), "past register 65535"),
        (change(at={"modbus": {"address": 1, "type": "bit"}}), "needs `bit`"),
        (change(at={"modbus": {"address": 1, "bit": 3}}), "needs `bit`"),
        (change(at={"modbus": {"function": "coil", "address": 1}}), "hold `type: bit`"),
        (change(at={"modbus": {"address": 1, "type": "text"}}), "needs `length`"),
        (change(at={"modbus": {"address": 1, "stride": 2}}), "`stride` is needed"),
        (change(at={"snmp": {"oid": "1.3.6"}}), "snmp in a modbus profile"),
        (change(at={"snmp": {"oid": "internet"}}), "is not an OID"),
        (change(at={}), "exactly one of modbus, snmp, mqtt"),
        (change(plausible=["0", "1 kW"]), "is no unit of"),
        (change(plausible=["2 kW", "1 kW"]), "plausible range"),
        (change(plausible=["0 MW", "900 MW"]), "plausible range"),
        (change(poll="hourly"), "no poll class"),
        (
            change(table="rows", part="phase.*", at={"modbus": {"address": 1, "stride": 1}}),
            "no table",
        ),
        (change(wraps_at="9 kW"), "only counters wrap"),
        (change(kind="energy", wraps_at="9"), "is no unit of energy"),
        (change(kind="energy", unit="kWh", wraps_at="0.5 kWh"), "above one step"),
        (SETPOINT | {"write": WRITE | {"max": "10 degC"}}, "write.min must lie below"),
        (SETPOINT | {"write": WRITE | {"step": "0 K"}}, "write.step must be above zero"),
        (SETPOINT | {"at": {"modbus": {"function": "input", "address": 0}}}, "cannot be written"),
    ],
)
def test_a_fault_in_a_point_is_refused(point: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why.replace("(", r"\(").replace(".*", r"\.\*")):
        profile_of(point)


@pytest.mark.parametrize("verified", ["document", "capture"])
def test_a_register_that_nobody_has_seen_work_is_not_writable(verified: str) -> None:
    with pytest.raises(ValidationError, match="writing needs"):
        profile_of(SETPOINT, verified=verified)


def test_a_point_stands_once() -> None:
    with pytest.raises(ValidationError, match="stands twice"):
        profile_of(POINT, POINT)


def test_a_sum_needs_rows_to_add() -> None:
    with pytest.raises(ValidationError, match="to add up"):
        profile_of(POINT, sums=[{"part": "all", "kind": "active_power", "of": "phase"}])


def test_a_value_may_not_be_younger_than_two_periods_when_it_dies() -> None:
    with pytest.raises(ValidationError, match="two periods"):
        profile_of(POINT, classes={"fast": {"period": "1 s", "stale_after": "1 s"}})


def test_bounds_of_a_write_are_in_the_canonical_unit() -> None:
    fahrenheit = SETPOINT | {"write": {"min": "59 degF", "max": "113 degF", "step": "0.9 degF"}}
    limits = limits_of(binding_of(fahrenheit).all()[0].entry)
    assert limits is not None
    assert (limits.low, limits.high, limits.step) == pytest.approx((15.0, 45.0, 0.5))


def test_a_fault_of_a_profile_file_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    text = (profiles_folder() / "cdu/orv3-rpu.yaml").read_text("utf-8")
    path.write_text(text.replace("kind: flow", "kind: flown"), "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_profile(path)
    problem = caught.value.problems[0]
    assert "no kind 'flown'" in problem.problem
    assert (
        text.splitlines()[problem.line - 1]
        .lstrip()
        .startswith("- {part: loop.secondary, kind: flow")
    )


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("verified: document", "verifyed: document", {"is missing", "is no known key"}),
        (
            "identity:",
            "identity: x\nidentities:",
            {"must hold keys with values", "is no known key"},
        ),
    ],
)
def test_a_fault_of_a_profile_was_told_in_words_of_python(
    right: str, wrong: str, words: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.yaml"
    text = (profiles_folder() / "cdu/orv3-rpu.yaml").read_text("utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong, 1), "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_profile(path)
    assert {problem.problem for problem in caught.value.problems} == words


def test_the_example_of_the_guide_is_a_profile_and_names_every_check(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "profiles.md").read_text("utf-8")
    example = next(t for t in guide.split("```yaml\n")[1:] if t.startswith("profile:"))
    path = tmp_path / "acme-pm9.yaml"
    path.write_text(example.partition("```")[0], "utf-8")
    assert bind(read_profile(path, "meter/acme-pm9"), "d").layouts
    assert [name for name in get_args(Check) if f"`{name}`" not in guide.replace("\n", " ")] == []


def test_a_profile_in_the_file_of_another_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="in the file of"):
        read_profile(profiles_folder() / "cdu/orv3-rpu.yaml", "cdu/other")


def profiles_folder() -> Path:
    from drivers import catalog

    return catalog.FOLDER


@pytest.fixture(params=sorted(profiles()), ids=str)
def shipped(request: pytest.FixtureRequest) -> Profile:
    return profiles()[request.param]


def test_a_shipped_profile_binds_without_contact(shipped: Profile) -> None:
    binding = bind(shipped, "dev")
    if any(p.table is None or shipped.tables[p.table].rows for p in shipped.points):
        assert [str(s.id) for layout in binding.layouts for s in layout.points]
    for layout in binding.layouts:
        assert len(layout) == len(binding.points[layout.key]) + len(binding.sums[layout.key])
        for spec in layout.points:
            assert not spec.writable  # nothing is writable until the address allows it
            assert KINDS[spec.id.kind].low <= spec.low < spec.high <= KINDS[spec.id.kind].high


def test_a_shipped_profile_says_where_it_comes_from(shipped: Profile) -> None:
    assert shipped.title
    assert shipped.source
    for entry in shipped.points:
        assert all(w.protocol == shipped.protocol for w in wheres(entry))


def test_rows_come_from_the_file_or_from_a_walk() -> None:
    profile = profiles()["pdu/apc-rpdu2"]
    parts = lambda **more: [  # noqa: E731
        p.spec.id.part for p in bind(profile, "d", **more).all() if p.entry.kind == "voltage"
    ]
    assert parts() == ["phase.1", "phase.2", "phase.3"]
    assert parts(parameters={"phases": "1"}) == ["phase.1"]
    assert parts(found={"phases": (2, 3)}) == ["phase.2", "phase.3"]
    for wrong in ({"phases": "many"}, {"phases": "4"}, {"fases": "1"}, {"phases": "-1"}):
        with pytest.raises(ValueError, match="phases"):
            bind(profile, "d", wrong)


def test_the_period_of_the_file_stretches_every_class() -> None:
    binding = bind(profiles()["pdu/apc-rpdu2"], "d", period_s=2.0)
    periods = {layout.poll_class: binding.periods[layout.key] for layout in binding.layouts}
    assert periods == {"fast": 2.0, "slow": 20.0}


@pytest.mark.parametrize(
    ("oid", "name"),
    [
        ("1.3.6.1.4.1.318.1.3.4.6", "pdu/apc-rpdu2"),
        ("1.3.6.1.4.1.13742.6", "pdu/raritan-px"),
        ("1.3.6.1.4.1.13742.6.9.9", "pdu/raritan-px"),
        ("1.3.6.1.2.1.33", "ups/rfc1628"),
        ("1.3.6.1.4.1.705.1", "ups/eaton-mge"),
        ("1.3.6.1.4.1.13742.60", None),
        ("1.3.6.1.4.1", None),
    ],
)
def test_a_device_is_known_by_its_object_identifier(oid: str, name: str | None) -> None:
    claim = Claim(tuple(int(arc) for arc in oid.split(".")))
    if name is None:
        with pytest.raises(Unclear):
            recognise(profiles().values(), claim)
    else:
        assert recognise(profiles().values(), claim).profile == name


def test_what_the_check_command_is_told() -> None:
    told = offers()
    measured, writable = told["cdu/wattkeeper-sim"]
    assert ("loop.secondary", "supply_setpoint") in measured & writable
    assert ("total", "active_power") in told["ups/rfc1628"][0]
    assert not told["pdu/apc-rpdu2"][1]
