"""Wattkeeper against uniform, three-band and 80 % capping, on the same plant and hour.

The judge is the plant's own truth: tokens, and tokens per joule of racks, and of racks with their
cooling. Ours is the whole service on simulated devices; the others read true loads at once, move
caps at once, and are given the N+1 proof for nothing (`tests.bench.baselines.proof`). The static
cap runs with as many racks as are N+1 at it. `WATTKEEPER_BENCH_SECONDS` shortens the hour.
"""

from __future__ import annotations

import os
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from api.demo.virtual import VirtualOptions, run_virtual
from drivers.sim import scenarios
from facility.clock import SystemClock
from facility.config import Facility
from facility.loading import load_text
from tests.bench.baselines import packing, schemes
from tests.bench.baselines.proof import Proof
from tests.bench.baselines.running import run, with_racks

SEED = 1
POLICY = "policy: efficiency"
RACKS_OF_ROWS = {"row1": ("r01", "r02", "r03", "r04"), "row2": ("r05", "r06", "r07", "r08")}


def measure() -> dict[str, Any]:
    """Figures of ours, of each other scheme, and ratios ours over theirs."""
    seconds = float(os.environ.get("WATTKEEPER_BENCH_SECONDS", "3600"))
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    demo = load_text(text, "demo.yaml").facility
    peers = _others(demo, seconds)
    figures: dict[str, Any] = {"seconds": seconds, "seed": SEED}
    ratios: dict[str, float] = {}
    for policy in ("throughput", "efficiency"):
        clock = SystemClock()
        began_s = clock.monotonic_s()
        ours = _told(_ours(text, policy, seconds))
        figures |= {f"{policy}_{name}": value for name, value in ours.items()}
        figures[f"{policy}_times_life"] = seconds / (clock.monotonic_s() - began_s)
    for name, peer in peers.items():
        ratios[f"throughput_tokens_over_{name}"] = figures["throughput_tokens"] / peer["tokens"]
        for what in ("tokens_per_joule_rack", "tokens_per_joule_with_cooling"):
            ratios[f"efficiency_{what}_over_{name}"] = figures[f"efficiency_{what}"] / peer[what]
    return {"figures": figures, "peers": peers, "ratios": ratios}


def _others(demo: Facility, seconds: float) -> dict[str, dict[str, Any]]:
    """Each other scheme on the plant, and how many more racks ours feeds at no fewer tokens."""
    proof = Proof(demo)
    fit = packing.packed(demo, packing.holding(lambda p: schemes.static_80(p).caps_w))
    kept = {rack for row, names in RACKS_OF_ROWS.items() for rack in names[: fit.rows[row]]}
    fewer = with_racks(demo, kept)
    made = {
        "uniform": (demo, schemes.uniform(proof)),
        "three_band": (demo, schemes.ThreeBand(proof)),
        "static_80": (fewer, schemes.static_80(Proof(fewer))),
    }
    peers = {}
    for name, (hall, scheme) in made.items():
        told = _told(run(hall, scheme, "steady", SEED, seconds))
        racks = len(hall.power.racks)
        # By the curves at full load, where the scheme came to rest.
        rate = packing.tokens_per_s(hall, scheme.caps_w)
        ours = packing.packed(demo, packing.ours, rate)
        peers[name] = told | {
            "racks": racks,
            "racks_ours_for_no_fewer_tokens": ours.racks,
            "more_racks": ours.racks - racks,
        }
    return peers


def _ours(text: str, policy: str, seconds: float) -> dict[str, Any]:
    loaded = load_text(text.replace(POLICY, f"policy: {policy}"), "demo.yaml")
    assert loaded.facility.controllers.allocation.policy == policy
    with tempfile.TemporaryDirectory() as folder:
        options = VirtualOptions(
            loaded, scenarios.load("steady"), SEED, seconds, Path(folder) / "bench.db"
        )
        return run_virtual(options).report


def _told(truth: dict[str, Any]) -> dict[str, Any]:
    tokens, power = truth["tokens"], truth["power"]
    return {
        "tokens": tokens["total"],
        "tokens_per_joule_rack": tokens["per_joule_rack"],
        "tokens_per_joule_with_cooling": tokens["per_joule_with_cooling"],
        "redundancy_lost_s": power["redundancy_lost_s"],
        "tripped": power["tripped"],
    }
