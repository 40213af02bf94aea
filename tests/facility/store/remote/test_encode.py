"""What a request says: names, labels, times, ends of series; never a number for what is missing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facility.checking import RESERVED_LABELS
from facility.kinds import KINDS, Nature
from facility.points import Layout, PointId, PointSpec, Scan
from facility.store.remote import Naming, RemoteSink, Spool, encode
from facility.store.remote.naming import metric
from tests.facility.store.plant import START_MS, layout, scan
from tests.facility.store.remote.wire import STALE, Series, number, read

PDU = layout(points=3)


def everything(sink: RemoteSink) -> list[Series]:
    """Packs, and takes every request out of the spool."""
    sink.pack()
    found = []
    while (record := sink.spool.first()) is not None:
        found.append(read(record.body))
        assert record.samples == sum(map(len, found[-1].values()))
        sink.spool.done(record)
    return found


def of_part(series: Series, part: str) -> list[tuple[int, bytes]]:
    return next((s for labels, s in series.items() if dict(labels)["part"] == part), [])


@pytest.fixture
def sink(tmp_path: Path) -> RemoteSink:
    naming = Naming({"hall": "north"}, {"pdu-1": {"rack": "r01", "feed": ""}})
    return RemoteSink(Spool(tmp_path / "spool", 1 << 24), naming)


def test_a_series_has_one_prefix_a_base_unit_and_sorted_labels(sink: RemoteSink) -> None:
    energy = PointId("pdu-1", "outlet.3", "energy")
    of = Layout("pdu-1", "slow", (PointSpec(energy, 0.0, 1e15),))
    sink.put(scan(of, [2.5]))
    ((labels, samples),) = everything(sink)[0].items()
    assert dict(labels) == {
        "__name__": "wattkeeper_energy_joules_total",
        "device": "pdu-1",
        "hall": "north",
        "kind": "energy",
        "part": "outlet.3",
        "rack": "r01",
    }
    assert samples == [(START_MS, np.float64(9000.0).tobytes())]


def test_every_kind_has_a_metric_of_its_own_in_a_base_unit() -> None:
    names = {metric(kind)[0] for kind in KINDS.values()}
    assert len(names) == len(KINDS)
    base = (
        *("watts", "voltamperes", "vars", "joules_total", "amperes", "volts", "hertz", "celsius"),
        *("ratio", "pascals", "kelvin", "seconds", "cubic_meters_per_second"),
    )
    for kind in KINDS.values():
        name, _ = metric(kind)
        assert name.startswith(f"wattkeeper_{kind.name}")
        assert name.endswith("_total") == (kind.nature is Nature.COUNTER)
        if kind.quantity is not None:
            assert name.endswith(base), name
    assert metric(KINDS["flow"])[1] * 60_000 == pytest.approx(1.0)


def test_a_point_that_turns_bad_is_ended_once_and_is_no_number_meanwhile(sink: RemoteSink) -> None:
    nan = math.nan
    for second, (value, grade) in enumerate(
        [(1.0, 0), (2.0, 1), (nan, 2), (nan, 2), (7.0, 2), (nan, 0), (3.0, 0), (math.inf, 0)]
    ):
        sink.put(scan(PDU, [value, 5.0, nan], [grade, 0, 2], at_ms=START_MS + 1000 * second))
    (told,) = everything(sink)
    first = [((ms - START_MS) // 1000, raw) for ms, raw in of_part(told, "fast.0")]
    assert [(s, raw if raw == STALE else number(raw)) for s, raw in first] == [
        (0, 1.0),
        (1, 2.0),
        (2, STALE),
        (6, 3.0),
        (7, STALE),
    ]
    assert len(of_part(told, "fast.1")) == 8
    assert of_part(told, "fast.2") == [(START_MS, STALE)], "ended once: a former run may have sent"
    sink.put(scan(PDU, [nan, 5.0, nan], [2, 0, 2], at_ms=START_MS + 8000))
    (told,) = everything(sink)
    assert of_part(told, "fast.0") == []
    assert of_part(told, "fast.1") != []


def test_scans_are_sorted_and_late_ones_travel_alone(sink: RemoteSink) -> None:
    for second in (3, 1, 2, 2):
        sink.put(scan(PDU, [float(second)] * 3, at_ms=START_MS + 1000 * second))
    (told,) = everything(sink)
    assert [number(raw) for _, raw in of_part(told, "fast.0")] == [1.0, 2.0, 3.0]
    sink.put(scan(PDU, [9.0] * 3, at_ms=START_MS))
    sink.put(scan(PDU, [math.nan, 9.0, 9.0], [2, 0, 0], at_ms=START_MS + 1500))
    sink.put(scan(PDU, [4.0] * 3, at_ms=START_MS + 4000))
    on_time, late = everything(sink)
    assert [number(raw) for _, raw in of_part(on_time, "fast.0")] == [4.0]
    assert of_part(late, "fast.0") == [(START_MS, np.float64(9.0).tobytes())]
    assert [ms - START_MS for ms, _ in of_part(late, "fast.1")] == [0, 1500]


def test_small_layouts_share_a_request_and_large_ones_are_cut(sink: RemoteSink) -> None:
    for n in range(50):
        sink.put(scan(layout(f"d{n}"), [1.0] * 4))
    (told,) = everything(sink)
    assert len(told) == 200
    wide = layout("wide", points=13_000)
    sink.put(scan(wide, np.arange(13_000.0)))
    parts = everything(sink)
    assert [len(p) for p in parts] == [encode.MOST_SAMPLES, 3000]
    values = [number(samples[0][1]) for p in parts for samples in p.values()]
    assert values == [float(n) for n in range(13_000)]


@given(ms=st.integers(-10, encode.LAST_MS + 10), value=st.floats(width=64))
def test_any_time_and_value_is_said_exactly_or_not_at_all(
    ms: int, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kinds = Layout("d", "fast", (PointSpec(PointId("d", "p", "active_power"), -1e9, 1e9),))
    one = Scan(kinds, np.array([value]), np.zeros(1, np.uint8), ms, ms, 0.0)
    sink = RemoteSink(Spool(tmp_path_factory.mktemp("spool"), 1 << 20), Naming())
    sink.put(one)
    told = everything(sink)
    sink.close()
    if not 0 <= ms <= encode.LAST_MS:
        assert told == []
        assert sink.dropped_samples == 1
        return
    ((_, samples),) = told[0].items()
    assert samples[0][0] == ms
    assert samples[0][1] == (np.float64(value).tobytes() if math.isfinite(value) else STALE)


def test_no_label_of_a_site_can_hide_one_of_ours() -> None:
    labels, _ = Naming().series(PointId("d", "p", "flow"))
    assert {name for name, _ in labels} - {"__name__"} <= RESERVED_LABELS
