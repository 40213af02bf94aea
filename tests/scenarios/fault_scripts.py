"""Random fault scripts: what a seed breaks, in the simulator's own format, and how it is replayed.

One power loss at a time, at any moment, with dead, slow, flapping, silent or garbled meters, dead
agents, steps of the controller's clock, and a controller or a broker that is killed. The hall
varies too: what its caps start from, how fast they may rise, and what they are chosen for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from drivers.sim import scenarios
from drivers.sim.scenarios import Scenario
from facility.loading import Loaded, load_text

SECONDS: Final = 45.0
#: A loss is seen, believed and answered within this time; another one comes after it.
APART_S: Final = 6.0
WATCHED: Final = ("rack_meter", "ups", "cdu")
BREAKS: Final = ("device_dead", "device_slow", "device_flapping", "device_garbage")
#: The readings by which the profiles of the demo hall tell power; a meter mutes all of its own.
POWERS: Final = tuple(
    f"{part}:active_power" for part in ("total", "inlet.1", "output.1", "output.2", "output.3")
)
STEPS_S: Final = (-86_400.0, -3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0, 86_400.0)


@dataclass(frozen=True)
class FaultScript:
    """One seed's hall and script.

    Attributes:
        hall: text of the facility file.
        text: text of the scenario file.
    """

    seed: int
    hall: str
    text: str

    @property
    def loaded(self) -> Loaded:
        """The hall."""
        return load_text(self.hall, f"hall-{self.seed}.yaml")

    @property
    def scenario(self) -> Scenario:
        """The script."""
        return scenarios.parse(self.text, f"faults-{self.seed}")

    def keep(self, folder: Path) -> str:
        """Write both files and say how to run them again."""
        hall, faults = folder / f"hall-{self.seed}.yaml", folder / f"faults-{self.seed}.yaml"
        hall.write_text(self.hall, "utf-8")
        faults.write_text(self.text, "utf-8")
        return (
            f"{self.text}\n"
            f"again, step by step: make soak ARGS='-k \"test_another_script[{self.seed}]\"'\n"
            f"over real protocols: wattkeeper demo --config {hall} --scenario {faults}"
            f" --seed {self.seed} --for {SECONDS:.0f}s"
        )


def script(seed: int) -> FaultScript:
    """What a seed stands for; the same for ever."""
    rng = random.Random(f"fault script {seed}")
    hall = _hall(rng)
    faults = _losses(rng, load_text(hall, "hall.yaml"))
    for _ in range(rng.randint(1, 4)):
        faults.append(_instrument(rng))
    for make in (_agents, _clock, _controller, _broker):
        if rng.random() < 0.4:
            faults.append(make(rng))
    faults.sort(key=lambda fault: float(fault["start"]))
    about = f"Random faults of seed {seed}."
    text = yaml.safe_dump({"about": about, "faults": faults}, sort_keys=False, width=100)
    return FaultScript(seed, hall, text)


def _hall(rng: random.Random) -> str:
    text = (resources.files("facility") / "demo.yaml").read_text("utf-8")
    changes = {
        "policy: efficiency": f"policy: {rng.choice(('efficiency', 'throughput'))}",
        "ramp: 2 MW/min": f"ramp: {rng.choice((20, 60, 200, 2000))} kW/min",
        "fallback: 350 W": f"fallback: {rng.choice((300, 320, 350))} W",
    }
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text


def _span(rng: random.Random, least_s: float, most_s: float, **more: Any) -> dict[str, Any]:
    """`more` with a start and an end, as shares of the run."""
    length_s = rng.uniform(least_s, most_s)
    start_s = rng.uniform(0.0, SECONDS - min(length_s, SECONDS / 2.0))
    end_s = min(start_s + length_s, SECONDS)
    return {**more, "start": round(start_s / SECONDS, 4), "end": round(end_s / SECONDS, 4)}


def _losses(rng: random.Random, loaded: Loaded) -> list[dict[str, Any]]:
    """One element, or one after another with time between them."""
    elements = list(loaded.facility.power.elements)
    found: list[dict[str, Any]] = []
    first = _span(rng, 4.0, 40.0, kind="element_lost", named=rng.choice(elements))
    found.append(first)
    end_s = float(first["end"]) * SECONDS + APART_S
    if end_s < SECONDS - 2.0 and rng.random() < 0.5:
        start = round(rng.uniform(end_s, SECONDS - 1.0) / SECONDS, 4)
        named = rng.choice(elements)
        found.append({"kind": "element_lost", "named": named, "start": start, "end": 1.0})
    return found


def _instrument(rng: random.Random) -> dict[str, Any]:
    of = rng.choice(WATCHED)
    many = {"rack_meter": 8, "ups": 6, "cdu": 2}[of]
    index = rng.randrange(many)
    count = min(rng.choice((1, 1, 2, 3, many)), many - index)
    what: dict[str, Any] = {"of": [of], "index": index, "count": count}
    if rng.random() < 0.25:
        return _span(rng, 3.0, 40.0, kind="sensor_nan", points=list(POWERS), **what)
    return _span(rng, 1.0, 40.0, kind=rng.choice(BREAKS), **what)


def _agents(rng: random.Random) -> dict[str, Any]:
    index = rng.randrange(32)
    count = min(rng.choice((1, 1, 4, 16)), 32 - index)
    return _span(rng, 2.0, 40.0, kind="agent_killed", index=index, count=count)


def _clock(rng: random.Random) -> dict[str, Any]:
    return _span(rng, 2.0, 40.0, kind="clock_stepped", value=rng.choice(STEPS_S))


def _controller(rng: random.Random) -> dict[str, Any]:
    return _span(rng, 1.0, 25.0, kind="controller_killed")


def _broker(rng: random.Random) -> dict[str, Any]:
    return _span(rng, 1.0, 25.0, kind="broker_stopped")
