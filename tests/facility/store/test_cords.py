"""Single-cord drills are kept as they go on; a signature holds for the parent it was made for."""

from __future__ import annotations

from dataclasses import replace

from facility.cords import CordDrill, signatures
from facility.store import Store
from tests.facility.store.plant import START_MS

FIRST = CordDrill(
    "d1", "r05", "a", "row2-a", "ada", "as wired", START_MS, START_MS + 900_000, "ab" * 32
)


def signed(drill: CordDrill, ended_ms: int) -> CordDrill:
    return replace(drill, state="signed", ended_ms=ended_ms, evidence={"feed": {"now_w": 0.0}})


def test_a_drill_is_written_again_as_it_goes_on(store: Store) -> None:
    store.save_cord_drill(FIRST).result()
    assert store.cord_drills().result() == [FIRST]
    assert store.signed_cords().result() == []
    done = signed(FIRST, START_MS + 60_000)
    store.save_cord_drill(done).result()
    later = replace(FIRST, id="d2", feed="b", parent="row2-b", started_ms=START_MS + 70_000)
    store.save_cord_drill(later).result()
    assert store.cord_drills().result() == [later, done]
    assert store.cord_drills(limit=1).result() == [later]
    assert store.signed_cords().result() == [done]


def test_of_each_cord_the_newest_signature_is_found(store: Store) -> None:
    old = signed(FIRST, START_MS + 60_000)
    new = signed(replace(FIRST, id="d2", started_ms=START_MS + 1), START_MS + 90_000)
    moved = signed(replace(FIRST, id="d3", parent="row1-a"), START_MS + 50_000)
    for drill in (old, new, moved):
        store.save_cord_drill(drill).result()
    assert store.signed_cords().result() == [new, moved]


def test_a_cord_that_the_file_hangs_elsewhere_later_is_unsigned_again() -> None:
    old, new = signed(FIRST, 10), signed(replace(FIRST, id="d2"), 20)
    here, there = {("r05", "a"): "row2-a"}, {("r05", "a"): "row1-a"}
    assert signatures([new, old], here) == {("r05", "a"): new}
    assert signatures([new, old], there) == {}
    assert signatures([replace(FIRST, state="failed", ended_ms=30)], here) == {}
