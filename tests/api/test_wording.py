"""Numbers, times and charts as people see them."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.picture import finite, iso, number
from api.web.charts import HEIGHT, WIDTH, spark
from api.web.forms import local_path
from api.web.wording import (
    NOTHING,
    cap,
    celsius,
    counted,
    date,
    decimal,
    kelvin,
    kilowatts,
    moment,
    point_name,
    point_value,
    power,
    scope_name,
    share,
)
from tests.api.hall import START_MS

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)


def plain(text: str) -> str:
    return re.sub(r"[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]", " ", text)


@pytest.mark.parametrize(
    ("watts", "text"),
    [
        (None, "—"),
        (0.0, "0 W"),
        (-0.4, "0 W"),
        (512.0, "512 W"),
        (84_000.0, "84.0 kW"),
        (-12_300.0, "−12.3 kW"),
        (450_000.0, "450 kW"),
        (12_345_678.0, "12.35 MW"),
    ],
)
def test_power_is_written_in_the_unit_that_reads_best(watts: float | None, text: str) -> None:
    assert plain(power(watts)) == text


def test_unknown_is_a_dash_and_never_a_number() -> None:
    for write in (power, kilowatts, celsius, kelvin, share, decimal):
        assert write(None) == NOTHING  # type: ignore[operator]
    assert cap(None, None) == NOTHING
    assert moment(None, ZoneInfo("UTC")) == NOTHING
    assert point_value(None, "W") == NOTHING


def test_times_carry_their_zone_also_across_the_change_of_the_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert moment(START_MS, berlin) == "16:00:00 CET"
    assert date(1_792_890_000_000, berlin) == "2026-10-25 02:00:00 CET"
    assert date(1_792_890_000_000 - 3_600_000, berlin) == "2026-10-25 02:00:00 CEST"
    assert moment(START_MS, ZoneInfo("Asia/Kathmandu")) == "20:45:00 +0545"
    assert iso(START_MS) == "2026-11-30T15:00:00.000Z"


def test_names_are_words() -> None:
    assert point_name("r01-n1:total:power_cap") == "r01-n1 power cap"
    assert point_name("cdu-1:loop.secondary:supply_setpoint") == (
        "cdu-1 loop.secondary supply setpoint"
    )
    assert point_name("odd") == "odd"
    assert scope_name("hall") == "Hall"
    assert scope_name("rack:r01") == "Rack r01"
    assert scope_name("loop:loop-1") == "loop-1"


def test_caps_are_one_number_or_a_range() -> None:
    assert plain(cap(512.2, 512.4)) == "512 W"
    assert plain(cap(300.0, 512.0)) == "300–512 W"
    assert plain(share(1.21)) == "+21.0 %"
    assert plain(share(0.9)) == "−10.0 %"
    assert plain(share(1.0)) == "+0.0 %"


@given(FINITE, st.integers(0, 3))
def test_a_written_number_reads_back(value: float, digits: int) -> None:
    text = re.sub("[\N{NARROW NO-BREAK SPACE}]", "", decimal(value, digits))
    assert float(text.replace("−", "-")) == pytest.approx(value, abs=10.0**-digits)


@given(st.lists(st.one_of(st.none(), FINITE), max_size=60))
def test_a_chart_stays_in_its_frame_and_breaks_at_gaps(values: list[float | None]) -> None:
    chart = spark("x", [(START_MS + i * 5000, value) for i, value in enumerate(values)])
    known = [value for value in values if value is not None]
    runs = "".join("x" if value is not None else " " for value in values).split()
    assert len(chart.paths) == sum(len(run) > 1 for run in runs)
    assert len(chart.dots) == sum(len(run) == 1 for run in runs)
    assert (chart.low, chart.high) == ((min(known), max(known)) if known else (None, None))
    for path in chart.paths:
        for pair in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path):
            assert 0.0 <= float(pair[0]) <= WIDTH
            assert 0.0 <= float(pair[1]) <= HEIGHT


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5)),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=20,
    )
)
def test_nothing_that_is_not_finite_leaves(value: object) -> None:
    assert "nan" not in str(finite({"value": value, "also": (value,)})).replace("'", "").split()


def test_a_bool_is_no_number() -> None:
    assert number(True) is None
    assert number(float("nan")) is None
    assert number(3) == 3.0


@pytest.mark.parametrize(
    ("asked", "leads"),
    [
        ("/", "/"),
        ("/what-if?fail=a", "/what-if?fail=a"),
        ("", "/"),
        ("//evil", "/"),
        ("/\\evil", "/"),
        ("https://evil", "/"),
        ("/a\nb", "/"),
    ],
)
def test_only_paths_of_this_site_are_gone_to(asked: str, leads: str) -> None:
    assert local_path(asked) == leads


def test_many_names_are_counted_and_drawn_together() -> None:
    assert counted([]) == ""
    assert counted(["r01", "r02", "cdu-1"]) == "r01-r02, cdu-1"
    assert counted([f"r{i:03}" for i in range(1, 121)]) == "120: r001-r120"
