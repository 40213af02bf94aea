"""Whatever comes when, and whenever hours are compacted: the past is that of the samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from facility.points import BAD_TIMEOUT, Flaw, Grade, quality
from facility.store import Store, open_store
from facility.store.past import Question
from facility.store.rollups import CounterRule, PointRules, SiteDays
from tests.facility.store.past.test_answers import DAY_MS, ENERGY, HOUR_MS, PDU, POWER
from tests.facility.store.plant import SteppedClock, scan

SUSPECT = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
HOURS = 27
END_MS = DAY_MS + HOURS * HOUR_MS
RULES = PointRules(site=SiteDays("Europe/Berlin"), counter=lambda _: CounterRule(0.01, 1.0, 500.0))
NAMES = ("count", "good", "suspect", "total", "minimum", "maximum", "first", "last", "delta")

GRADES = st.sampled_from([0, 0, 0, SUSPECT, BAD_TIMEOUT])
TIMES = st.integers(0, HOURS * 12 - 1).map(lambda i: DAY_MS + 300_000 * i)
VALUES = st.floats(0, 500)
BATCHES = st.lists(
    st.tuples(st.dictionaries(TIMES, st.tuples(VALUES, VALUES, GRADES), max_size=8), st.booleans()),
    min_size=1,
    max_size=4,
)


def opened() -> Store:
    return open_store("sqlite://", SteppedClock(END_MS + 3 * HOUR_MS), inline=True, rules=RULES)


def put(store: Store, at_ms: int, sample: tuple[float, float, int]) -> None:
    power, wh, grade = sample
    values = [float("nan")] * 2 if grade == BAD_TIMEOUT else [power, wh]
    store.put(scan(PDU, values, [grade] * 2, at_ms=at_ms))


def ask(store: Store, step_s: float | None) -> dict[str, list[list[float]]]:
    q = Question((POWER, ENERGY), DAY_MS, END_MS, step_s, days=step_s is None)
    series = store.past(q).result().series
    return {name: [getattr(s, name).tolist() for s in series] for name in NAMES}


# A failing example takes minutes to shrink, and says enough as it is.
@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(batches=BATCHES, data=st.data())
def test_late_data_in_any_order_gives_the_same_past_as_data_in_order(
    batches: list[tuple[dict[int, tuple[float, float, int]], bool]], data: st.DataObject
) -> None:
    late, tidy = opened(), opened()
    everything: dict[int, tuple[float, float, int]] = {}
    for batch, compacts in batches:
        for at_ms in data.draw(st.permutations(sorted(batch))):
            put(late, at_ms, batch[at_ms])
        if compacts:
            late.compact(settle_ms=0).result()
            late.settle_days().result()
        everything |= batch
    before = {step_s: ask(late, step_s) for step_s in (900.0, 7200.0, None)}
    for at_ms in sorted(everything):
        put(tidy, at_ms, everything[at_ms])
    for store in (late, tidy):
        store.compact(settle_ms=0).result()
        store.settle_days().result()
    for step_s, early in before.items():
        one, other = ask(late, step_s), ask(tidy, step_s)
        for name in NAMES:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-6, err_msg=name)
            # What waits for compaction counts as well; only deltas may still move then.
            if name != "delta":
                np.testing.assert_allclose(early[name], other[name], rtol=1e-9, atol=1e-6)
    hours = ask(tidy, 3600.0)
    for i, (begin, end) in enumerate(pairwise(range(DAY_MS, END_MS + 1, HOUR_MS))):
        good = [v[0] for at, v in sorted(everything.items()) if begin <= at < end and v[2] == 0]
        assert hours["good"][0][i] == len(good)
        if good:
            assert hours["total"][0][i] == pytest.approx(sum(good), abs=1e-6)
            assert (hours["first"][0][i], hours["last"][0][i]) == (good[0], good[-1])
            assert (hours["minimum"][0][i], hours["maximum"][0][i]) == (min(good), max(good))
        else:
            assert np.isnan(hours["minimum"][0][i])
    late.close()
    tidy.close()
