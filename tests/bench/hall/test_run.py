"""The bench of the cycle still runs, on a hall that a test has time for."""

from __future__ import annotations

from tests.bench.cycle import hall
from tests.bench.hall import SMALL


def test_the_bench_of_the_cycle_runs_through_plans_faults_and_a_loss() -> None:
    figures = hall(SMALL, cycles=60)
    assert figures["hall_nodes"] == SMALL.rack_count * SMALL.nodes
    assert figures["all_caps_cycles"] >= 2
    assert figures["commands"] > figures["hall_nodes"]
    assert 0.0 < figures["n1_check_ms_p99"] < figures["cycle_ms_max"]
