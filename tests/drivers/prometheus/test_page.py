"""The finder of lines: against prometheus_client's parser, and against nonsense."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from drivers.profile import PrometheusWhere
from drivers.profile.binding import Places, PrometheusAt
from drivers.prometheus.page import (
    MAX_LABEL_BYTES,
    MAX_SAMPLES,
    Lines,
    TooMany,
    declared_in,
    labels_of,
    whole_page,
)
from drivers.prometheus.series import Reader
from drivers.prometheus.tally import MAX_SERIES, Tally
from facility.points import Flaw
from tests.drivers.prometheus.pages import NOW_MS, SAMPLES, sample
from tests.drivers.wires import same


def reader(*metrics: str, **where: object) -> Reader:
    raws = ({"metric": metric, **where} for metric in metrics)
    return Reader(Places.of(PrometheusAt(PrometheusWhere.model_validate(raw)) for raw in raws))


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(texts, texts, st.floats(allow_nan=False)), min_size=1, max_size=6),
    st.floats(min_value=0.0, allow_infinity=False),
)
def test_what_the_library_writes_is_read_as_the_library_reads_it(
    samples: list[tuple[str, str, float]], counted: float
) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("a_gauge", "x", ["p", "q"], registry=registry)
    Counter("a_counter", "x", registry=registry).inc(counted)
    for p, q, value in samples:
        gauge.labels(p, q).set(value)
    page = generate_latest(registry)
    theirs = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(page.decode())
        for s in family.samples
        if s.name in ("a_gauge", "a_counter_total")
    }
    ours = {
        (line.name.decode(), tuple(sorted((labels_of(line.labels) or {}).items()))): line.number
        for line in Lines(["a_gauge", "a_counter_total"]).find(page)
    }
    assert ours == theirs


@pytest.mark.parametrize(
    "name",
    [
        "vllm_0.33.0_metrics_sample.txt",
        "sglang_0.5.23_metrics_sample.txt",
        "sglang_docs_sample_legacy.txt",
        "triton_trtllm_metrics_sample.txt",
        "llamacpp_metrics_sample.txt",
        "dcgm_exporter_sample.txt",
    ],
)
def test_every_sample_of_the_shared_pages_is_found(name: str) -> None:
    page = sample(name)
    assert SAMPLES.is_dir()
    text = page.decode()
    # The library gives a counter the suffix that a backend left out.
    theirs = [
        (s.name if s.name in text else s.name.removesuffix("_total"), s.labels, float(s.value))
        for family in text_string_to_metric_families(text)
        for s in family.samples
    ]
    lines = Lines({n for n, _, _ in theirs}).find(page)
    ours = [(line.name.decode(), labels_of(line.labels), line.number) for line in lines]
    key = repr
    assert sorted(ours, key=key) == sorted(theirs, key=key)


@pytest.mark.parametrize(
    "line",
    [
        b"m",
        b"m ",
        b"m{} ",
        b"m x",
        b"m 1_000",
        b"m 0x10",
        b"m 1 2 3",
        b'm{a="b} 1',
        b'm{a="b" c="d"} 1',
        b'm{a="b",a="c"} 1',
        b'm{a="\\t"} 1',
        b"m{a=b} 1",
        b"m 1,5",
        b"m --1",
        b"m{\xff} 1",
    ],
)
def test_a_broken_line_is_no_number_and_spoils_only_its_own_name(line: bytes) -> None:
    answers = reader("m", "n").answers(line + b"\nn 5\n", NOW_MS)
    assert same(answers, [Flaw.UNDECODABLE, 5.0])


@pytest.mark.parametrize("number", [b"NaN", b"+Inf", b"-inf", b"1e999"])
def test_what_is_not_finite_is_no_number(number: bytes) -> None:
    assert reader("m").answers(b"m " + number + b"\n", NOW_MS)[0] is Flaw.UNDECODABLE


def test_a_line_may_carry_a_time_an_exemplar_and_spaces() -> None:
    ms = str(NOW_MS - 1000).encode()
    assert reader("m").answers(b"m 1.5 " + ms + b"\n", NOW_MS)[0] == 1.5
    assert reader("m").answers(b'm 1.5 # {trace="x"} 0.3\r\n', NOW_MS)[0] == 1.5
    assert reader("m").answers(b'm { a = "b" , } 2\n', NOW_MS)[0] == 2.0
    assert reader("m").answers(b"mm 3\nm_total 4\n# m 5\n", NOW_MS)[0] is Flaw.REFUSED


def test_a_sample_that_stopped_long_ago_is_stale() -> None:
    old = str(NOW_MS - 600_000).encode()
    assert reader("m").answers(b"m 1.5 " + old + b"\n", NOW_MS)[0] is Flaw.STALE
    seconds = str(NOW_MS // 1000 - 600).encode()
    page = b"m 1.5 " + seconds + b"\n# EOF\n"
    assert reader("m").answers(page, NOW_MS, open_metrics=True)[0] is Flaw.STALE


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 400_000_000_000])
def test_a_sample_whose_own_time_stands_still_is_stale_however_far_ahead(ahead_ms: int) -> None:
    """Its exporter stopped measuring and goes on answering; its clock may be twelve years ahead."""
    here = reader("m")
    page = b"m 3 %d\n" % (NOW_MS + ahead_ms)
    assert here.answers(page, NOW_MS) == (3.0,)
    assert here.answers(page, NOW_MS + 200_000) == (3.0,)
    assert same(here.answers(page, NOW_MS + 301_000), (Flaw.STALE,))
    moved = b"m 4 %d\n" % (NOW_MS + ahead_ms + 302_000)
    assert here.answers(moved, NOW_MS + 302_000) == (4.0,)


def test_labels_of_a_megabyte_are_not_remembered_and_make_no_number() -> None:
    here = reader("m")
    for i in range(3):
        page = b'm{a="' + b"%d" % i + b"x" * 1_000_000 + b'"} 3\n'
        assert same(here.answers(page, NOW_MS), (Flaw.UNDECODABLE,))
    assert sum(len(labels) for _, labels in here._uses) <= MAX_LABEL_BYTES
    assert labels_of(b'{a="' + b"x" * MAX_LABEL_BYTES + b'"}') is None


def test_a_page_of_four_million_lines_and_no_family_is_passed_over_once() -> None:
    names = [f"family_{i}_total" for i in range(300)]
    page = b"# TYPE family_7 counter\n#\n" + b"x\n" * 2_000_000 + b"x # TYPE family_8_total \n"
    assert declared_in(page, names) == {"family_7_total"}


def test_a_page_without_end_is_read_by_nobody() -> None:
    page = b"m 1\n" * (MAX_SAMPLES + 1)
    with pytest.raises(TooMany):
        list(Lines(["m"]).find(page))
    assert reader("m").answers(page, NOW_MS)[0] is Flaw.UNDECODABLE


def test_a_page_cut_short_is_no_page() -> None:
    assert whole_page(b"m 12345", open_metrics=False, framed=False) is None
    assert whole_page(b"m 12345", open_metrics=False, framed=True) == b"m 12345\n"
    assert whole_page(b"m 1\n", open_metrics=True, framed=True) is None
    assert whole_page(b"m 1\n# EOF\n", open_metrics=True, framed=True) == b"m 1\n# EOF\n"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 255))
def test_no_page_is_a_crash_or_a_number_from_nonsense(junk: bytes, at: int, octet: int) -> None:
    page = b'm{a="b",c="d"} 17.25\nn{r="1"} 3\n# TYPE k counter\n' + junk + b'\nm{a="e"} 2\n'
    spoiled = page[:at] + bytes((octet,)) + page[at + 1 :]
    for body in (junk, spoiled, page[: at % len(page)]):
        whole = whole_page(body, open_metrics=False, framed=False)
        for answer in reader("m", "n", "k", per=["a"], take="sum").answers(whole or b"", NOW_MS):
            assert isinstance(answer, Flaw) or math.isfinite(float(answer))  # type: ignore[arg-type]


counts = st.integers(0, 1000)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.tuples(counts, st.booleans()), min_size=3, max_size=3), max_size=12))
def test_no_restart_counts_more_than_what_was_counted(steps: list[list[tuple[int, bool]]]) -> None:
    """Case 43: each series counts on or starts again; the sum of what it shows is never more."""
    tally, shown = Tally(), [0.0, 0.0, 0.0]
    told = tally.add({(str(i),): n for i, n in enumerate(shown)})
    for step in steps:
        made = 0.0
        for i, (count, again) in enumerate(step):
            shown[i] = count if again else shown[i] + count
            made += count
        now = tally.add({(str(i),): n for i, n in enumerate(shown)})
        counted = now - told if now >= told else now  # as downstream reads a counter
        assert counted <= made
        told = now


def test_a_rank_that_is_off_the_page_for_a_moment_counts_nothing_twice() -> None:
    tally = Tally()
    assert tally.add({("0",): 100.0, ("1",): 1000.0}) == 1100.0
    assert tally.add({("0",): 110.0}) == 1110.0
    assert tally.add({("0",): 120.0, ("1",): 1010.0}) == 1130.0


def test_ranks_that_come_back_after_the_one_that_stayed_restarted_count_nothing_twice() -> None:
    tally = Tally()
    tally.add({("0",): 500.0, ("1",): 900.0, ("2",): 900.0})
    assert tally.add({("0",): 5.0}) == 5.0
    assert tally.add({("0",): 5.0, ("1",): 910.0, ("2",): 20.0}) == 5.0 + 10.0 + 20.0


def test_another_model_in_the_same_engine_starts_the_sum_again() -> None:
    """Else it fell when we started again, and the tokens of the new model counted twice."""
    tally = Tally()
    assert tally.add({("old",): 9_000.0}) == 9_000.0
    assert tally.add({("new",): 10.0}) == 10.0
    assert tally.add({("new",): 25.0}) == Tally().add({("new",): 25.0})
    assert tally.add({("new",): 30.0, ("old",): 9_001.0}) == 31.0


def test_a_restart_of_all_ranks_is_a_restart_of_the_counter() -> None:
    tally = Tally()
    tally.add({("0",): 100.0, ("1",): 1000.0})
    assert tally.add({("0",): 3.0, ("1",): 0.0}) == 3.0


def test_series_that_come_and_go_for_ever_are_not_all_remembered() -> None:
    tally = Tally()
    for i in range(MAX_SERIES + 50):
        tally.add({(str(i),): 1.0})
    assert len(tally._last) <= MAX_SERIES + 1
