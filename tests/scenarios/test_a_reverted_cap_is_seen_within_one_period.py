"""A driver that resets puts boards back to their maximum: seen, told and lowered at once."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from api.demo.virtual import VirtualOptions, run_virtual
from api.service.service import Service
from drivers.sim import scenarios
from drivers.sim.plant.world import World
from facility.loading import load_text

AT_S = 8.0
NODE = "r02-n3"
FLOOR_W = 300.0


def test_it_is_counted_told_and_taken_back(tmp_path: Path) -> None:
    counted: list[float] = []
    back: list[float] = []
    others: list[float] = []
    told: set[str] = set()

    def watch(world: World, service: Service) -> None:
        plant = world.plant.truth
        mine = plant.hall.boards.node == plant.hall.node_position[NODE]
        since_s = world.seconds - AT_S
        if abs(since_s) < 0.05:
            plant.bank.limit_w[mine] = 700.0
        if world.seconds > AT_S:
            others.append(float(plant.bank.limit_w[~mine].min()))
        decision = service.decision()
        if since_s <= 0.0 or decision is None:
            return
        told.update(alarm.key for alarm in decision.alarms if alarm.active)
        if not counted and decision.facts["allocation"]["nodes"][NODE]["cap_w"] > 690.0:
            counted.append(since_s)
        if not back and float(plant.bank.limit_w[mine].max()) < 500.0:
            back.append(since_s)

    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    run = run_virtual(
        VirtualOptions(
            load_text(text, "demo.yaml"),
            scenarios.load("steady"),
            1,
            20.0,
            tmp_path / "demo.db",
            watch=watch,
        )
    )
    # A status each second, looked at each second by the collector and by the cycle.
    assert counted[0] <= 3.1
    assert back[0] <= 3.2
    assert any(NODE in key for key in told)
    # Its rack's meter shows it before its agent does; nobody else comes down for that.
    assert min(others) > FLOOR_W + 10.0
    assert run.report["power"]["tripped"] == []
