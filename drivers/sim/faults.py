"""The script of a run: which faults are in force at a moment, and what programs must do.

Faults of the plant become a `Disturbance`, weather becomes a rise, instruments get their own
list, and what happens to programs (controller, broker, agents) becomes events for the process
that owns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drivers.sim.plant.disturbance import Disturbance
from drivers.sim.scenarios import DEVICE_FAULTS, PROGRAM_FAULTS, REPEAT_S, SENSOR_FAULTS, Fault


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a program must undergo: `active` at the start, not at the end of a fault."""

    kind: str
    targets: tuple[str, ...]
    active: bool
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Present:
    """What is in force at one moment.

    Attributes:
        numbers: which faults of the script, for noticing changes.
        disturbance: of the plant.
        instruments: sensor and device faults.
        programs: faults of programs.
    """

    numbers: tuple[int, ...]
    disturbance: Disturbance
    instruments: tuple[Fault, ...]
    programs: tuple[Fault, ...]


class Script:
    """Faults against time.

    Args:
        faults: resolved against the facility.
        duration_s: of the run; None: the script repeats every 180 s.
    """

    def __init__(self, faults: Sequence[Fault], duration_s: float | None) -> None:
        self.faults = tuple(faults)
        self._period_s = REPEAT_S if duration_s is None else max(duration_s, 1.0)
        self._repeats = duration_s is None
        self._cache: dict[tuple[int, ...], Present] = {}

    def share(self, t_s: float) -> float:
        """Where in the run (or in the present repetition) a moment lies, 0 to 1."""
        share = t_s / self._period_s
        return share % 1.0 if self._repeats else share

    def present(self, t_s: float) -> Present:
        """What is in force at `t_s`."""
        share = self.share(t_s) + 1e-9
        numbers = tuple(
            i for i, f in enumerate(self.faults) if f.entry.start <= share < f.entry.end
        )
        if numbers not in self._cache:
            self._cache[numbers] = self._make(numbers)
        return self._cache[numbers]

    def weather(self, t_s: float) -> tuple[float, float]:
        """Rise of the outdoor temperature and of its dew point at `t_s`, K."""
        share, hotter, damper = self.share(t_s), 0.0, 0.0
        for fault in self.faults:
            entry = fault.entry
            if entry.kind == "hot_weather":
                strength = _trapezium(share, entry.start, entry.end, entry.ramp)
                hotter += strength * entry.value
                damper += strength * entry.dew_point
        return hotter, damper

    def _make(self, numbers: tuple[int, ...]) -> Present:
        active = [self.faults[i] for i in numbers]

        def targets(kind: str) -> frozenset[str]:
            return frozenset(t for f in active if f.entry.kind == kind for t in f.targets)

        pumps = frozenset(
            (cdu, number)
            for fault in active
            if fault.entry.kind == "pump_lost"
            for cdu in fault.targets
            for number in fault.entry.pumps
        )
        return Present(
            numbers,
            Disturbance(
                elements=targets("element_lost"),
                pumps=pumps,
                cdus=targets("cdu_lost"),
                stuck=targets("valve_stuck"),
                leaks=targets("leak"),
            ),
            tuple(f for f in active if f.entry.kind in SENSOR_FAULTS | DEVICE_FAULTS),
            tuple(f for f in active if f.entry.kind in PROGRAM_FAULTS),
        )


def changes(before: Present | None, after: Present) -> list[Event]:
    """Events for the programs hit by the step from one moment to the next."""
    old = before.programs if before is not None else ()
    ended = [f for f in old if f not in after.programs]
    begun = [f for f in after.programs if f not in old]
    return [
        *(Event(f.entry.kind, f.targets, False, f.entry.value) for f in ended),
        *(Event(f.entry.kind, f.targets, True, f.entry.value) for f in begun),
    ]


def _trapezium(x: float, start: float, end: float, ramp: float) -> float:
    """0 outside, 1 between start and end, straight ramps before and after."""
    if start <= x < end:
        return 1.0
    if ramp <= 0.0 or x < start - ramp or x > end + ramp:
        return 0.0
    return (x - start + ramp) / ramp if x < start else (end + ramp - x) / ramp
