"""Pages for the tests: small ones of our own, and the shared samples where they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from drivers.catalog import profiles
from drivers.profile.binding import Places, bind
from drivers.profile.codec import decode
from drivers.prometheus.series import Reader, rows_in
from facility.points import Grade, flaw_of, grade_of

NOW_MS = 1_800_000_000_000
CAPTURES = os.environ.get("WATTKEEPER_CAPTURES", "")
SAMPLES = Path(CAPTURES).parent / "metrics" if CAPTURES else Path("nowhere")


def sample(name: str) -> bytes:
    """A shared sample; the test is skipped where there is none."""
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no {name}: WATTKEEPER_CAPTURES names no folder beside it")
    return path.read_bytes()


def readings(
    profile_name: str, *pages: bytes, parameters: dict[str, str] | None = None
) -> dict[str, Any]:
    """`part:kind` -> value, or the name of its flaw, after pages were read one after another."""
    profile = profiles()[profile_name]
    found = {
        table: rows_in(
            pages[0],
            [e.at.prometheus for e in profile.points if e.table == table and e.at.prometheus],
        )
        for table in profile.tables
    }
    binding = bind(profile, "d", parameters, found={} if parameters else found)
    points = binding.all()
    places = Places.of(p.at for p in points)
    reader = Reader(places)
    for page in pages:
        answers = dict(zip(places.at, reader.answers(page, NOW_MS), strict=True))
    told = {}
    for point in points:
        decoded = decode(point, answers[point.at])
        name = f"{point.spec.id.part}:{point.spec.id.kind}"
        bad = grade_of(decoded.quality) is Grade.BAD
        told[name] = flaw_of(decoded.quality).name if bad else decoded.value
    return told
