"""What a restart must not forget survives a kill: trip clocks and measured overheads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest

from api.service.keeping import ServiceKeeping
from controllers.cycle.state import CycleInput, Memory
from controllers.kept import Kept
from controllers.trips import bands_of
from facility.clock import LoopClock, VirtualTimeLoop
from facility.store import Store, open_store
from tests.controllers.rig import Hall
from tests.controllers.toy import EPOCH_MS, Toy, site_of, small_hall

POINTS = "overload: [[110 %, 600 s], [125 %, 60 s], [150 %, 10 s]]"
TEXT = small_hall().replace("autonomy: 300 s}", f"autonomy: 300 s, {POINTS}}}")


class Run:
    """A controller that has just started on a database."""

    def __init__(self, store: Store, clock: LoopClock, *, simulated: bool = False) -> None:
        self.hall = Hall(Toy(site_of(TEXT)))
        self.kept: Kept | None = None
        self.asked = 0
        self.keeping = ServiceKeeping(self.hall.site, store, clock, self, simulated=simulated)

    def set_kept(self, kept: Kept | None) -> None:
        self.kept = kept
        self.asked += 1

    @property
    def memory(self) -> Memory:
        return self.hall.memory

    @property
    def inputs(self) -> CycleInput | None:
        return replace(self.hall.inputs(), now_ms=self.hall.toy.now_ms) if self.hall.cycle else None


def on_a_database(work: Callable[[Store, LoopClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), EPOCH_MS)
        store = open_store("sqlite://", clock, inline=True, hall="Toy")
        await work(store, clock)
        store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


def test_a_controller_that_is_killed_leaves_its_clocks_to_the_next() -> None:
    async def work(store: Store, clock: LoopClock) -> None:
        first = Run(store, clock)
        await first.keeping.restore()
        assert first.kept is None
        await first.keeping.note()
        first.hall.toy.changes["ups-a1:total:active_power"] = 35_000.0
        first.hall.run(20)
        writing = asyncio.create_task(first.keeping.run())
        await asyncio.sleep(6.0)
        writing.cancel()
        second = Run(store, clock)
        await second.keeping.restore()
        assert second.kept is not None
        c = bands_of(first.hall.site).elements.index("ups-a1")
        assert second.kept.used["ups-a1"] == first.hall.memory.trips.used[c] > 0.3
        assert second.kept.load_w["ups-a1"] == pytest.approx(1.02 * 35_000.0)
        second.hall.kept = second.kept
        second.hall.step()
        assert second.hall.memory.trips.used[c] >= second.kept.used["ups-a1"]

    on_a_database(work)


def test_clocks_that_rest_are_not_written_again_and_again() -> None:
    async def work(store: Store, clock: LoopClock) -> None:
        run, key = Run(store, clock), "kept:Toy"
        run.hall.run(3)
        await run.keeping.note()
        first = await asyncio.wrap_future(store.meta(key))
        run.hall.run(3)
        await run.keeping.note()
        assert await asyncio.wrap_future(store.meta(key)) == first
        run.hall.toy.changes["ups-a1:total:active_power"] = 35_000.0
        run.hall.run(3)
        await run.keeping.note()
        assert await asyncio.wrap_future(store.meta(key)) != first

    on_a_database(work)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"at_ms": "now"}', '{"at_ms": true}', '{"at_ms": -1}', "{", '{"at_ms": 1e9}'],
)
def test_what_cannot_be_read_is_unknown_and_stops_nothing(text: str) -> None:
    async def work(store: Store, clock: LoopClock) -> None:
        await asyncio.wrap_future(store.set_meta("kept:Toy", text))
        run = Run(store, clock, simulated=True)
        await run.keeping.restore()
        assert run.kept is None
        assert run.asked == 1

    on_a_database(work)


def test_a_simulated_plant_starts_rested_but_not_again() -> None:
    async def work(store: Store, clock: LoopClock) -> None:
        for _ in range(2):
            run = Run(store, clock, simulated=True)
            await run.keeping.restore()
            assert run.kept is not None
            assert set(run.kept.used.values()) == {0.0}
            assert run.kept.at_ms == EPOCH_MS
            await asyncio.sleep(60.0)

    on_a_database(work)


def test_figures_that_cannot_be_are_left_out() -> None:
    data = {"at_ms": 5, "used": {"a": 0.5, "b": 1.5, "c": -0.1, "d": True, "e": None, "f": "0"}}
    assert Kept.from_json(data) == Kept(5, {"a": 0.5})
    kept = Kept(5, {"a": 0.5, "b": float("nan")}, {"a": np.inf}, {"r01: x": 7.0})
    assert Kept.from_json(json.loads(json.dumps(kept.to_json(), allow_nan=False))) == Kept(
        5, {"a": 0.5}, {}, {"r01: x": 7.0}
    )
