"""The other schemes do what their sources say; a bench against straw men proves nothing."""

from __future__ import annotations

import numpy as np
import pytest

from facility.loading import load
from tests.bench.baselines import packing, schemes
from tests.bench.baselines.proof import Proof
from tests.bench.baselines.running import run, with_racks
from tests.conftest import ROOT

DEMO = load(str(ROOT / "facility" / "demo.yaml"))
PROOF = Proof(DEMO)


def test_the_uniform_cap_is_the_highest_that_every_loss_allows() -> None:
    cap_w = next(iter(schemes.uniform(PROOF).caps_w.values()))
    assert PROOF.holds(dict.fromkeys(DEMO.nodes, cap_w))
    assert not PROOF.holds(dict.fromkeys(DEMO.nodes, cap_w + 1.0))


def test_static_80_fits_six_racks_and_the_allocation_ten_for_more_tokens() -> None:
    static = packing.packed(DEMO, packing.holding(lambda p: schemes.static_80(p).caps_w))
    ours = packing.packed(DEMO, packing.ours, static.tokens_per_s)
    assert (static.racks, ours.racks) == (6, 10)
    assert ours.tokens_per_s >= static.tokens_per_s


def _load_w(caps_w: dict[str, float]) -> np.ndarray:
    """Loads of racks whose boards draw their caps and whose supplies lose nothing."""
    load = {name: rack.overhead for name, rack in DEMO.power.racks.items()}
    for name, node in DEMO.nodes.items():
        load[node.rack] += node.overhead + node.gpus * caps_w[name]
    return np.array([*load.values(), *(each.rating for each in DEMO.power.loads.values())])


def _at(cap_w: float) -> tuple[np.ndarray, np.ndarray]:
    return _load_w(dict.fromkeys(DEMO.nodes, cap_w)), np.full(len(DEMO.nodes), cap_w)


def test_three_band_cuts_above_99_per_cent_and_gives_back_below_90() -> None:
    scheme = schemes.ThreeBand(PROOF)
    load_w, node_w = _at(500.0)
    cut = scheme.step(0.0, load_w, node_w)
    first_row = [n for n in DEMO.nodes if DEMO.nodes[n].rack in ("r01", "r02", "r03", "r04")]
    assert set(first_row) <= set(cut)
    after = _load_w({n: min(scheme.caps_w[n], 500.0) for n in DEMO.nodes})
    row = PROOF.elements.index("row1-a")
    assert PROOF.worst_w(after)[row] / PROOF.limit_w[row] == pytest.approx(0.95, abs=0.02)
    assert scheme.step(3.0, after, np.minimum(node_w, scheme.caps)) == {}
    low, idle = _at(200.0)
    given_back = scheme.step(6.0, low, idle)
    assert {given_back[n] for n in first_row} == {700.0}


def test_three_band_looks_at_leaves_every_3_s_and_above_every_9_s() -> None:
    scheme = schemes.ThreeBand(PROOF)
    load_w, node_w = _at(200.0)
    scheme.step(0.0, load_w, node_w)
    high, drawn = _at(600.0)
    assert scheme.step(2.0, high, drawn) == {}
    assert scheme.step(3.0, high, drawn) != {}


def test_a_scheme_runs_on_the_plant_that_judges_it() -> None:
    kept = with_racks(DEMO, {"r01", "r02", "r05", "r06", "r07", "r08"})
    truth = run(kept, schemes.static_80(Proof(kept)), "steady", 1, 30.0)
    assert truth["power"]["redundancy_lost_s"] == 0.0
    assert truth["tokens"]["total"] > 0.0
