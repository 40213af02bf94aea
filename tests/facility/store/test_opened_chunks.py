"""One point of a wide layout is read without the others' columns, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from facility.store import open_store
from facility.store.engine import writing_engine
from facility.store.rows import chunks
from facility.store.rows.chunks import HOUR_MS, hour_of
from tests.facility.store.plant import START_MS, SteppedClock, layout, scan

POINTS = 40
WIDE = layout("wide", POINTS)
HOUR = hour_of(START_MS) + HOUR_MS


@pytest.fixture
def file(tmp_path: Path, clock: SteppedClock) -> str:
    """URL of a database with two compacted hours of noise, much more than a page a column."""
    url = f"sqlite:///{tmp_path / 'hall.db'}"
    store = open_store(url, clock, inline=True)
    rng = np.random.default_rng(1)
    for at_ms in range(HOUR, HOUR + 2 * HOUR_MS, 4000):
        quality = (rng.random(POINTS) < 0.01) * 0x80
        store.put(scan(WIDE, rng.normal(size=POINTS), quality.astype(np.uint8), at_ms=at_ms))
    clock.ms = HOUR + 2 * HOUR_MS
    assert store.compact(settle_ms=0).result().hours == 2
    store.close()
    return url


@pytest.mark.parametrize("wanted", [[0], [POINTS - 1], [7, 3], list(range(10))])
def test_a_few_columns_are_what_they_are_among_all(file: str, wanted: list[int]) -> None:
    engine = writing_engine(file)
    with engine.begin() as connection:
        number = connection.execute(sa.text("SELECT layout_id FROM chunk LIMIT 1")).scalar_one()
        span = (HOUR + 5000, HOUR + 2 * HOUR_MS)
        whole = chunks.read(connection, number, POINTS, *span)
        few = chunks.read(connection, number, POINTS, *span, wanted)
    engine.dispose()
    np.testing.assert_array_equal(few.times_ms, whole.times_ms)
    np.testing.assert_array_equal(few.received_ms, whole.received_ms)
    np.testing.assert_array_equal(few.values, whole.values[wanted])
    np.testing.assert_array_equal(few.quality, whole.quality[wanted])


@pytest.mark.parametrize("cut", ["substr(body, 1, length(body) - 9)", "body || x'00'", "x''"])
def test_a_body_of_another_length_is_refused(file: str, cut: str) -> None:
    engine = writing_engine(file)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE chunk SET body = {cut}"))
        number = connection.execute(sa.text("SELECT layout_id FROM chunk LIMIT 1")).scalar_one()
        with pytest.raises(ValueError, match=r"chunk|blob"):
            chunks.read(connection, number, POINTS, HOUR, HOUR + HOUR_MS, [POINTS - 1])
    engine.dispose()


def test_a_damaged_column_is_refused_and_the_others_are_read(file: str) -> None:
    engine = writing_engine(file)
    with engine.begin() as connection:
        number = connection.execute(sa.text("SELECT layout_id FROM chunk LIMIT 1")).scalar_one()
        head = connection.execute(sa.text("SELECT head FROM chunk LIMIT 1")).scalar_one()
        begin, _ = chunks.Head(head).place(3)
        connection.execute(
            sa.text(
                "UPDATE chunk SET body = substr(body, 1, :at) || x'ff00ff' || substr(body, :on)"
            ),
            {"at": begin, "on": begin + 4},
        )
        chunks.read(connection, number, POINTS, HOUR, HOUR + HOUR_MS, [2])
        with pytest.raises(ValueError, match="damaged chunk column"):
            chunks.read(connection, number, POINTS, HOUR, HOUR + HOUR_MS, [3])
    engine.dispose()
