"""The laws of arbitration, as properties."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.arbiter import arbitrate, conflict_side
from controllers.base import must, told, would
from facility.commands import Bounds, Proposal, Rank, Side
from facility.points import PointId

CAP = PointId("n01", "total", "power_cap")
SUPPLY = PointId("cdu-1", "loop.secondary", "supply_setpoint")

values = st.floats(-100.0, 900.0).map(lambda x: round(x, 1))
points = st.sampled_from([CAP, SUPPLY])


@st.composite
def proposals(draw: st.DrawFn, rank: Rank | None = None, min_size: int = 0) -> list[Proposal]:
    out = []
    for i in range(draw(st.integers(min_size, 6))):
        low, high = sorted((draw(values), draw(values)))
        out.append(
            Proposal(
                CAP,
                rank if rank is not None else draw(st.sampled_from(list(Rank))),
                Bounds(
                    draw(st.sampled_from([low, -math.inf])), draw(st.sampled_from([high, math.inf]))
                ),
                draw(st.none() | values),
                f"reason {i}",
                draw(st.sampled_from(["a", "b", "c"])),
            )
        )
    return out


def at(point: PointId, found: list[Proposal]) -> list[Proposal]:
    return [Proposal(point, p.rank, p.bounds, p.prefer, p.reason, p.source) for p in found]


@given(points, proposals(min_size=1), st.none() | values)
def test_the_result_is_inside_its_room(
    point: PointId, found: list[Proposal], present: float | None
) -> None:
    setpoint = arbitrate(point, at(point, found), present)
    if setpoint is not None:
        assert setpoint.room.low <= setpoint.value <= setpoint.room.high


@given(points, proposals(min_size=1), st.none() | values, st.randoms(use_true_random=False))
def test_the_order_of_proposals_does_not_matter(
    point: PointId, found: list[Proposal], present: float | None, rng: object
) -> None:
    shuffled = list(found)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert arbitrate(point, at(point, found), present) == arbitrate(
        point, at(point, shuffled), present
    )


@given(proposals(min_size=1), proposals(rank=Rank.EFFICIENCY, min_size=1))
def test_a_junior_proposal_never_widens_the_room(
    found: list[Proposal], junior: list[Proposal]
) -> None:
    seniors = [p for p in found if p.rank < Rank.EFFICIENCY]
    before = arbitrate(CAP, [*seniors, would(CAP, 0.0, "x", "x")], 0.0)
    after = arbitrate(CAP, [*seniors, *junior, would(CAP, 0.0, "x", "x")], 0.0)
    assert before is not None
    assert after is not None
    assert after.room.low >= before.room.low
    assert after.room.high <= before.room.high


@given(proposals(rank=Rank.PROTECTION, min_size=1), proposals(rank=Rank.EFFICIENCY))
def test_a_more_senior_proposal_never_widens_the_room(
    senior: list[Proposal], junior: list[Proposal]
) -> None:
    """Whatever juniors say, the room lies inside what the seniors left; without a conflict it
    also lies inside what the juniors left.
    """
    anchor = would(CAP, 0.0, "x", "x")
    alone = arbitrate(CAP, [*senior, anchor], 0.0)
    both = arbitrate(CAP, [*senior, *junior, anchor], 0.0)
    juniors = arbitrate(CAP, [*junior, anchor], 0.0)
    assert alone is not None
    assert both is not None
    assert juniors is not None
    assert alone.room.low <= both.room.low <= both.room.high <= alone.room.high
    if not both.conflict:
        assert juniors.room.low <= both.room.low
        assert both.room.high <= juniors.room.high


@settings(max_examples=30)
@given(values, values)
def test_within_a_rank_the_conflict_side_wins(a: float, b: float) -> None:
    low, high = sorted((a, b))
    if low == high:
        return
    for point, want in ((CAP, low), (SUPPLY, high)):
        found = arbitrate(
            point,
            [must(point, -math.inf, low, "below", "x"), must(point, high, math.inf, "above", "y")],
            None,
        )
        assert found is not None
        assert found.value == want
        assert found.conflict


def test_an_operator_beats_efficiency_and_never_protection() -> None:
    room = must(CAP, 200.0, 500.0, "ups-a2 after loss of ups-a1", "allocation")
    eco = would(CAP, 420.0, "its own optimum", "allocation")
    inside = arbitrate(CAP, [eco, room, told(CAP, 350.0, "kim: test", "o1")], 420.0)
    assert inside is not None
    assert inside.value == 350.0
    outside = arbitrate(CAP, [eco, room, told(CAP, 650.0, "kim: test", "o1")], 420.0)
    assert outside is not None
    assert outside.value <= 500.0
    assert outside.conflict


def test_without_an_opinion_the_present_value_stays_inside_the_room() -> None:
    room = must(CAP, 200.0, 500.0, "limit", "allocation")
    held = arbitrate(CAP, [room], 450.0)
    assert held is not None
    assert held.value == 450.0
    cut = arbitrate(CAP, [room], 600.0)
    assert cut is not None
    assert cut.value == 500.0
    assert "limit" in cut.because


def test_an_unknown_present_value_takes_the_safe_side() -> None:
    low = arbitrate(CAP, [must(CAP, 200.0, 500.0, "limit", "allocation")], None)
    high = arbitrate(SUPPLY, [must(SUPPLY, 20.0, 40.0, "L and U", "cooling")], None)
    assert low is not None
    assert high is not None
    assert (low.value, high.value) == (200.0, 40.0)
    assert conflict_side(SUPPLY) is Side.HIGH


def test_nothing_is_said_where_nobody_bounds_the_safe_side() -> None:
    assert arbitrate(CAP, [], None) is None
