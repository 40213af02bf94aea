"""How much faster than life the whole demo hall runs under the virtual clock, and how well."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from facility.clock import SystemClock
from tests.scenarios.runs import demo

SECONDS = 120.0


def measure() -> dict[str, Any]:
    """Plant, agents, controllers, store and webhooks of one `feed-loss`."""
    clock = SystemClock()
    began_s = clock.monotonic_s()
    with tempfile.TemporaryDirectory() as folder:
        report = demo("feed-loss", 1, Path(folder), seconds=SECONDS).report
    took_s = clock.monotonic_s() - began_s
    return {
        "figures": {
            "plant_s": SECONDS,
            "wall_s": took_s,
            "times_life": SECONDS / took_s,
            "cycles": report["cycles"],
            "points": report["points"],
            "samples_stored": report["samples_stored"],
            "of_clairvoyant": report["tokens"]["of_clairvoyant"],
            "redundancy_lost_s": report["power"]["redundancy_lost_s"],
        }
    }
