"""The judged plant and its uncontrolled twin, in lockstep under one sky.

Both get the same boards, the same offered load, the same weather and the same faults, at 0.1 s.
The twin keeps every limit at its maximum and its supply at 30 degC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from drivers.sim.clairvoyant import Clairvoyant, Moment
from drivers.sim.faults import Event, Present, Script, changes
from drivers.sim.plant.disturbance import Outside
from drivers.sim.plant.instruments import ServedPlant
from drivers.sim.plant.parameters import PlantData
from drivers.sim.plant.plant import Hall, Plant
from drivers.sim.plant.surroundings import Demand, Weather
from drivers.sim.scenarios import Scenario, resolve
from drivers.sim.truth import Account, ratio
from facility.config import Facility
from facility.points import FloatArray

STEP_S: Final = 0.1
#: Offered load and weather move slowly: this often is enough.
_SLOW_STEPS: Final = 10
_TWIN_SUPPLY_C: Final = 30.0
#: Before the run the plants settle at their starting caps and set-points.
_SETTLE_S: Final = 1500
_EXCLUDED_SHORT_S: Final = 20.0
_EXCLUDED_LONG_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Start:
    """Where the judged plant starts, warm.

    Attributes:
        limit_w: of every board, by node; a node not named starts at its fallback.
        setpoint_c: of every CDU; None: the loop's default.
    """

    limit_w: dict[str, float]
    setpoint_c: float | None = None


class World:
    """Plant and twin.

    Attributes:
        plant: what servers and agents see and move.
        twin: the uncontrolled plant.
        seconds: of the run.
        waiting: the plants live, but the scenario's clock stands and nothing is counted.
    """

    def __init__(
        self,
        facility: Facility,
        seed: int,
        scenario: Scenario,
        duration_s: float | None,
        data: PlantData | None = None,
        start: Start | None = None,
    ) -> None:
        data = data if data is not None else PlantData()
        start = start if start is not None else Start({})
        self.facility = facility
        self.scenario = scenario
        self.duration_s = duration_s
        self.waiting = False
        hall = Hall(facility, data, seed)
        self._weather = Weather(data.weather, np.random.default_rng([seed, 2]))
        self._demand = Demand(data.demand, len(hall.nodes), np.random.default_rng([seed, 3]))
        self._script = Script(resolve(scenario, facility), duration_s)
        self._present: Present | None = None
        self._events: list[Event] = []
        self._steps = 0
        self._idled = 0
        limits = [
            start.limit_w.get(name, node.max_cap if node.fallback is None else node.fallback)
            for name, node in facility.nodes.items()
        ]
        limit_w: FloatArray = np.array(limits, dtype=np.float64)[hall.boards.node]
        controlled = Plant(hall, limit_w, start.setpoint_c)
        self.twin = Plant(hall, hall.boards.most_w, _TWIN_SUPPLY_C)
        self.plant = ServedPlant(controlled, self.twin)
        self._both = (controlled, self.twin)
        long = duration_s is not None and duration_s >= 2.0 * _EXCLUDED_LONG_S
        excluded = _EXCLUDED_LONG_S if long else _EXCLUDED_SHORT_S
        counted = 300.0 if duration_s is None else max(duration_s - excluded, 1.0)
        window = min(300.0, max(counted / 8.0, 5.0))
        self._accounts = tuple(Account(plant, excluded, window) for plant in self._both)
        self._clairvoyant = Clairvoyant(hall)
        self._excluded_s = excluded
        self._every = round(max(5.0, counted / 200.0) / STEP_S)
        self._sky = self._outside(0.0)
        self._settle()

    @classmethod
    def of(
        cls,
        facility: Facility,
        seed: int,
        scenario: Scenario,
        duration_s: float | None,
        start: Start | None = None,
    ) -> World:
        """A world with the standard plant data."""
        return cls(facility, seed, scenario, duration_s, start=start)

    @property
    def seconds(self) -> float:
        """Length of the run so far."""
        return self._steps * STEP_S

    def _settle(self) -> None:
        """Let both plants come to rest under the weather and load of the first moment."""
        self._offer(0.0)
        for plant in self._both:
            for _ in range(_SETTLE_S):
                plant.step(1.0, self._sky)
            plant.start()

    def _offer(self, t_s: float) -> None:
        node = self.twin.hall.boards.node
        shares, ripple = self._demand.shares(t_s)[node], self._demand.ripple(t_s)[node]
        for plant in self._both:
            plant.bank.offer(shares, ripple)

    def _outside(self, t_s: float) -> Outside:
        hotter, damper = self._script.weather(t_s)
        return Outside(
            self._weather.ambient_c(t_s) + hotter,
            self._weather.dew_point_c(t_s) + damper,
            damper,
        )

    def advance(self, seconds: float) -> None:
        """Integrate both plants over `seconds` (rounded to whole steps of 0.1 s)."""
        for _ in range(round(seconds / STEP_S)):
            if self.waiting:
                self._idle()
            else:
                self._step()

    def _idle(self) -> None:
        """A step before the run: load ripples, nothing breaks, nothing is counted."""
        if self._idled % _SLOW_STEPS == 0:
            self._offer((self._idled - _SLOW_STEPS) * STEP_S)
        self._idled += 1
        for plant in self._both:
            plant.step(STEP_S, self._sky)

    def begin(self) -> None:
        """Let the scenario's clock run; nothing that happened before counts."""
        self.waiting = False
        for account in self._accounts:
            account.begin()

    @property
    def over(self) -> bool:
        """Whether the stated duration has passed; the plants live on, uncounted."""
        return self.duration_s is not None and self.seconds >= self.duration_s - 1e-9

    def _step(self) -> None:
        t_s = self.seconds
        present = self._script.present(t_s)
        if present is not self._present:
            self._events.extend(changes(self._present, present))
            self._present = present
            for plant in self._both:
                plant.disturb(present.disturbance)
            self.plant.break_instruments(present.instruments)
        if self._steps % _SLOW_STEPS == 0:
            self._sky = self._outside(t_s)
            self._offer(t_s)
        counting = not self.over
        for plant, account in zip(self._both, self._accounts, strict=True):
            plant.step(STEP_S, self._sky)
            if counting:
                account.observe(STEP_S)
        self.plant.forget()
        self._steps += 1
        if counting and self.seconds > self._excluded_s and self._steps % self._every == 0:
            self._clairvoyant.look(Moment.of(self.plant.truth))

    def take_events(self) -> list[Event]:
        """What happened to programs since the last call."""
        events, self._events = self._events, []
        return events

    def of_clairvoyant(self) -> float | None:
        """Our tokens per joule of racks and cooling over the clairvoyant's."""
        ours = self._accounts[0].per_joule_with_cooling
        best = self._clairvoyant.tokens_per_joule
        return None if ours is None or best is None else ratio(ours, best)

    def truth(self) -> dict[str, Any]:
        """What really happened so far: the plant's own parts of the demo's answer."""
        ours, twin = self._accounts
        return {
            "scenario": self.scenario.name,
            "seed": self.twin.hall.seed,
            "seconds": round(ours.seconds, 3),
            "power": ours.power(),
            "overload_to_caps_s": ours.overload_to_caps(),
            "cooling": ours.cooling(),
            "tokens": ours.tokens(self.of_clairvoyant()),
            "uncontrolled": twin.uncontrolled(),
        }
