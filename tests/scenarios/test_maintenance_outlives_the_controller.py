"""A breaker that somebody opened stays open when the controller dies; such a run replays."""

from __future__ import annotations

import asyncio
from pathlib import Path

from api.commands.replay import loader
from api.demo.virtual import VirtualOptions, run_virtual
from api.service.service import Service
from api.upkeep import Plan
from controllers.replaying import replay
from drivers.sim import scenarios
from facility.clock import SystemClock
from facility.loading import load_text
from facility.recording import read_recording
from facility.store import open_store
from tests.conftest import ROOT

SECONDS = 28.0


def test_maintenance_outlives_the_controller_and_replays(tmp_path: Path) -> None:
    # One node a rack: the caps of four would prove nothing more, and take twice the time.
    text = (ROOT / "facility" / "demo.yaml").read_text("utf-8").replace("-n[1-4]", "-n1")
    assert text.count("-n1:") == 1
    made: list[str] = []

    async def people(service: Service) -> None:
        now_ms = service.clock.utc_ms()
        wish = Plan("element", "ups-a2", now_ms, now_ms + 600_000, "battery test", "CHG-7")
        work, consequences = await service.upkeep.plan(wish, "kim")
        assert consequences == []
        made.append(work.id)
        await asyncio.sleep(3.0)
        decision = service.decision()
        assert decision is not None
        told = decision.facts["maintenance"]
        assert [(row["id"], row["state"]) for row in told] == [(work.id, "open")]

    run = run_virtual(
        VirtualOptions(
            load_text(text, "demo.yaml"),
            scenarios.load("controller-loss"),
            3,
            SECONDS,
            tmp_path / "demo.db",
            tmp_path / "run.jsonl",
            meanwhile=people,
        )
    )
    assert run.report["power"]["tripped"] == []
    store = open_store(f"sqlite:///{tmp_path / 'demo.db'}", SystemClock(), inline=True)
    kept = store.maintenance(active=False).result()
    alarms = {a.event.key for a in store.alarms(active_only=False).result()}
    store.close()
    assert [record.work.id for record in kept] == made
    assert "maintenance:element:ups-a2" in alarms
    parts = sorted(tmp_path.glob("run*.jsonl"))
    assert len(parts) == 2
    for part in parts:
        recording = read_recording(part)
        cycles = [line for line in part.read_text("utf-8").splitlines() if '"cycle"' in line[:30]]
        assert made[0] in cycles[-1]
        report = replay(recording, loader(recording))
        assert report.cycles > 5
        assert report.same
