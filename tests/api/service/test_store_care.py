"""The store looks after itself while a hall runs."""

from __future__ import annotations

import asyncio

from api.service.store_care import StoreCare
from facility.clock import LoopClock, VirtualTimeLoop
from facility.points import Layout, PointId, PointSpec
from facility.store import open_store
from facility.store.rollups import PointRules, RetentionDays
from tests.facility.store.plant import scan

START_MS = 1_795_996_800_000  # 2026-11-30T00:00Z
POINT = PointId("pdu", "total", "active_power")
PDU = Layout("pdu", "fast", (PointSpec(POINT, 0.0, 1e6),))


def test_three_days_become_chunks_and_roll_ups_and_what_is_too_old_goes() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        rules = PointRules(keep=lambda _: RetentionDays(raw=1.0))
        store = open_store("sqlite://", clock, inline=True, rules=rules)
        caring = asyncio.create_task(StoreCare(store, clock).run())
        for minute in range(0, 3 * 24 * 60, 10):
            at_ms = START_MS + 60_000 * minute
            store.put(scan(PDU, [float(minute)], at_ms=at_ms))
            await asyncio.sleep(600)
        await asyncio.sleep(3 * 3600)
        caring.cancel()
        now_ms = clock.utc_ms()
        raw = store.history(POINT, now_ms - 20 * 3_600_000, now_ms).result()
        assert (raw.resolution, len(raw)) == ("raw", 17 * 6)
        first_day = store.history(POINT, START_MS, START_MS + 86_400_000).result()
        assert (first_day.resolution, first_day.step_s) == ("15m", 900.0)
        assert first_day.count.sum() == 144
        assert store.counts().result().scans > 0
        store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
