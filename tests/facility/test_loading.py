"""A facility file either loads whole, or says every fault with its place and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import facility
from facility.errors import ConfigError
from facility.loading import load_file, load_text

DEMO = str(Path(facility.__file__).with_name("demo.yaml"))

GOOD = """facility: 1
site: {name: Row, timezone: Europe/Berlin}
power:
  elements:
    grid: {kind: source}
    row-[a,b]: {kind: busway, fed_by: [grid], rating: {current: 250 A, voltage_ll: 415 V}}
  racks:
    r[01-03]: {feeds: {a: row-a, b: row-b}, rating: 30 kW}
node_types:
  h100x8: {gpus: 8, gpu: h100, min_cap: 200 W, max_cap: 700 W, floor: 300 W}
nodes:
  r[01-03]-n[1-2]: {type: h100x8, rack: "r{1}"}
  big: {type: h100x8, rack: r01, max_cap: 600 W}
"""


def faults(text: str) -> list[tuple[int, int, str, str]]:
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    return [(p.line, p.column, p.path, p.problem) for p in caught.value.problems]


def test_ranges_and_node_types_expand() -> None:
    facility = load_text(GOOD).facility
    assert list(facility.power.elements) == ["grid", "row-a", "row-b"]
    assert list(facility.power.racks) == ["r01", "r02", "r03"]
    assert len(facility.nodes) == 7
    assert facility.nodes["r02-n1"].rack == "r02"
    assert facility.nodes["r02-n1"].max_cap == 700.0
    assert facility.nodes["big"].max_cap == 600.0


def test_floor_and_fallback_are_filled_in() -> None:
    node = load_text(GOOD).facility.nodes["big"]
    assert (node.floor, node.fallback) == (300.0, 300.0)


def test_a_floor_in_tokens_becomes_the_watts_that_give_them() -> None:
    curve = "curve: {tm: 1000 tok/s, c0: 120 W, k: 300 W, n: 4}"
    text = GOOD.replace("max_cap: 600 W", f"max_cap: 600 W, floor_tokens: 6400 tok/s, {curve}")
    node = load_text(text).facility.nodes["big"]
    assert node.floor is not None
    x = (node.floor - 120.0) / 300.0
    assert 8.0 * 1000.0 * x / (1.0 + x**4) ** 0.25 == pytest.approx(6400.0)
    assert node.fallback == node.floor > 300.0
    less = GOOD.replace("max_cap: 600 W", f"max_cap: 600 W, floor_tokens: 9 tok/s, {curve}")
    assert load_text(less).facility.nodes["big"].floor == 300.0


def test_the_demo_hall_loads() -> None:
    loaded = load_file(DEMO)
    assert len(loaded.facility.power.racks) == 8
    assert sum(node.gpus for node in loaded.facility.nodes.values()) == 256
    assert len(loaded.sha256) == 64


def test_every_fault_is_listed_with_line_and_column() -> None:
    text = GOOD.replace("name: Row", "name: Row, nmae: x").replace("30 kW", "30")
    text = text.replace("kind: source", "kind: sorce").replace("max_cap: 600 W", "max_cap: 600 V")
    found = faults(text)
    assert [(line, path) for line, _, path, _ in found] == [
        (2, "site.nmae"),
        (5, "power.elements.grid.kind"),
        (8, "power.racks.r01.rating"),
        (13, "nodes.big.max_cap"),
    ]
    assert all(column > 1 for _, column, _, _ in found)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no", "true or false"),
        ("0100", "octal"),
        ("12:30", "base 60"),
        ("1_000", "underscores"),
        (".inf", "finite"),
        ("0x10", "decimal"),
    ],
)
def test_yaml_guesses_are_refused(value: str, why: str) -> None:
    found = faults(GOOD.replace("name: Row", f"name: {value}"))
    assert any(why in problem for _, _, _, problem in found)


def test_duplicate_key_names_the_first() -> None:
    found = faults(GOOD + "facility: 1\n")
    assert any("first on line 1" in problem for _, _, _, problem in found)


def test_alias_bomb_is_refused_and_not_expanded() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}, *a]\n" for i in range(40)
    )
    found = faults(GOOD + bomb)
    assert any("aliases" in problem for _, _, _, problem in found)


def test_same_name_from_two_ranges_is_a_fault() -> None:
    text = GOOD.replace("  big:", "  r01-n1:")
    assert any("stands twice" in problem for _, _, _, problem in faults(text))


def test_huge_range_is_refused() -> None:
    text = GOOD.replace("r[01-03]-n[1-2]", "r[1-9999]-n[1-9999]")
    assert any("more than" in problem for _, _, _, problem in faults(text))


def test_a_mistyped_key_gets_a_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(GOOD.replace("timezone", "timezon"))
    hints = [p.hint for p in caught.value.problems if p.path == "site.timezon"]
    assert hints == ["did you mean timezone?"]


def test_true_is_no_number() -> None:
    assert faults(GOOD.replace("gpus: 8", "gpus: true"))


def test_missing_file_is_a_fault_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_file(str(tmp_path / "none.yaml"))


@given(st.text(max_size=200))
def test_no_text_crashes_the_loader(text: str) -> None:
    try:
        load_text(text)
    except ConfigError as error:
        assert error.problems  # noqa: PT017 - either outcome is fine, a silent one is not


@given(st.integers(0, len(GOOD) - 1), st.sampled_from(list("[]{}:&*!|>'\"%@`#- \n\t0x")))
def test_no_damaged_character_crashes_the_loader(place: int, character: str) -> None:
    try:
        load_text(GOOD[:place] + character + GOOD[place + 1 :])
    except ConfigError as error:
        assert error.problems  # noqa: PT017 - either outcome is fine, a silent one is not


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("control: {period: 0 s}", "at least 100 ms"),
        ("controllers: {allocation: {period: 1e-9 s}}", "at least 100 ms"),
        ("agents: {lease: 0 s}", "at least 1 s"),
        ("agents: {lease: 2 min}", "at most 60 s"),
        ("agents: {hold: 2 d}", "at most 1 d"),
        ("store: {keep_raw: 1e300 d}", "more than any site has"),
        ("alerts: {inlet_warning: 1e30 degC}", "more than any site has"),
    ],
)
def test_a_number_that_would_stall_or_overflow_the_service_is_refused(
    section: str, words: str
) -> None:
    (fault,) = faults(f"{GOOD}{section}\n")
    assert words in fault[3]


@pytest.mark.parametrize("watts", ["1e300 kW", "1e300 kVA"])
def test_a_rating_beyond_the_largest_site_is_refused(watts: str) -> None:
    text = GOOD.replace("grid: {kind: source}", f"grid: {{kind: source, rating: {watts}}}")
    assert text != GOOD
    (fault,) = faults(text)
    assert "more than any site has" in fault[3]


def test_a_reference_of_thousands_of_digits_is_text_and_no_crash() -> None:
    text = GOOD.replace('rack: "r{1}"', 'rack: "r{' + "9" * 5000 + '}"')
    assert text != GOOD
    assert "string should have at most 64 characters" in faults(text)[0][3]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("auth: {pdus: {secret: public}}", "never here"),
        ("devices: {d: {profile: p, address: x, measures: r71}}", "must hold keys with values"),
        ("brokers: [bms]", "must hold keys with values"),
        ("traps: {listen: 'a:1', auth: pdus}", "must be a list, such as [a, b]"),
        ("devices: {d: {profile: p, address: x, parameters: {outlets: 3}}}", "put it into quotes"),
    ],
)
def test_a_wrong_shape_was_told_in_words_of_python(more: str, words: str) -> None:
    (problem,) = [text for *_, text in faults(GOOD + more + "\n")]
    assert words in problem
    assert "dictionary" not in problem
    assert "public" not in problem
