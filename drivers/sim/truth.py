"""The judge: what really happened in a plant, counted at every step.

`overload_s`: any rated element alive above rating x continuous. `redundancy_lost_s`: with the
present topology and the true loads, some further single loss would overload something.
`worst_headroom_w`: least of limit - load over rated elements and time, without a further loss.
`largest_step_w`: greatest change of the racks' total within one second, counting only racks that
were lit at both ends (a dark rack is the fault's doing, not a cap's).
`overload_to_caps_s`: how long each overload lasted, from its first to its last moment; one that has
not ended counts as long as it has lasted.
`thermal_throttle_s`, `below_dew_point_s`: any board throttled; any loop's supply below the room's
dew point. Efficiency counts only the time after the excluded start.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from drivers.sim.plant.plant import Plant
from facility.points import FloatArray


class Account:
    """Running totals of one plant.

    Args:
        plant: whom to watch.
        excluded_s: start of the run that efficiency does not count.
        window_s: length of the windows whose 5th percentile is "sustained".
    """

    def __init__(self, plant: Plant, excluded_s: float, window_s: float) -> None:
        self._plant = plant
        self._excluded_s = excluded_s
        self._window_s = window_s
        self._tokens_before = 0.0
        self._tripped_before = 0
        self.seconds = 0.0
        self.overload_s = 0.0
        self._overload_since_s: float | None = None
        self.overloads_s: list[float] = []
        self.redundancy_lost_s = 0.0
        self.throttle_s = 0.0
        self.below_dew_s = 0.0
        self.worst_headroom_w = math.inf
        self.largest_step_w = 0.0
        self.counted_tokens = 0.0
        self.counted_rack_j = 0.0
        self.counted_cooling_j = 0.0
        racks = len(plant.hall.racks)
        self._window_tokens: FloatArray = np.zeros(racks)
        self._window_j: FloatArray = np.zeros(racks)
        self._window_end_s = excluded_s + window_s
        self.sustained: list[float] = []
        self._recent: deque[FloatArray] = deque(maxlen=11)

    def begin(self) -> None:
        """Count from here: forget the counters that the plant brings along."""
        self._tokens_before = float(self._plant.tokens.sum())
        self._tripped_before = len(self._plant.tripped)

    @property
    def tripped(self) -> list[str]:
        """Elements whose overload band was exhausted since the beginning, in order."""
        return self._plant.tripped[self._tripped_before :]

    @property
    def total_tokens(self) -> float:
        """Generated since the beginning."""
        return float(self._plant.tokens.sum()) - self._tokens_before

    def observe(self, dt_s: float) -> None:
        """Count the step that the plant has just made."""
        plant = self._plant
        hall, network = plant.hall, plant.hall.network
        self.seconds += dt_s
        headroom = np.where(plant.flow.dead, np.inf, network.limit_w - plant.element_w)
        least = float(headroom.min()) if len(headroom) else math.inf
        self.worst_headroom_w = min(self.worst_headroom_w, least)
        if least < -1e-6:
            self.overload_s += dt_s
            if self._overload_since_s is None:
                self._overload_since_s = self.seconds - dt_s
        elif self._overload_since_s is not None:
            self.overloads_s.append(self.seconds - dt_s - self._overload_since_s)
            self._overload_since_s = None
        weights, limits = network.contingencies(plant.lost, plant.flat)
        if len(limits) and bool((weights @ plant.load_w > limits * (1.0 + 1e-9)).any()):
            self.redundancy_lost_s += dt_s
        if plant.bank.throttled.any() or plant.bank.off.any():
            self.throttle_s += dt_s
        if any(loop.supply_c < plant.room.dew_c for loop in plant.loops):
            self.below_dew_s += dt_s
        self._step_of_a_second()
        if self.seconds <= self._excluded_s + 1e-9:
            return
        self.counted_tokens += float(plant.node_tokens_per_s.sum()) * dt_s
        self.counted_rack_j += float(plant.rack_w.sum()) * dt_s
        self.counted_cooling_j += plant.cooling_w * dt_s
        racks = len(hall.racks)
        self._window_tokens += np.bincount(hall.node_rack, plant.node_tokens_per_s, racks) * dt_s
        self._window_j += plant.rack_w * dt_s
        if self.seconds >= self._window_end_s - 1e-9:
            self._close_window()

    def _step_of_a_second(self) -> None:
        rack_w = np.where(self._plant.rack_up, self._plant.rack_w, np.nan)
        self._recent.append(rack_w)
        if len(self._recent) == self._recent.maxlen:
            change = abs(float(np.nansum(rack_w - self._recent[0])))
            self.largest_step_w = max(self.largest_step_w, change)

    def _close_window(self) -> None:
        with_nodes = np.unique(self._plant.hall.node_rack)
        for rack in with_nodes.tolist():
            if self._window_j[rack] > 0.0:
                self.sustained.append(float(self._window_tokens[rack] / self._window_j[rack]))
        self._window_tokens[:] = 0.0
        self._window_j[:] = 0.0
        self._window_end_s += self._window_s

    @property
    def per_joule_rack(self) -> float | None:
        """Tokens per joule of the racks in the time counted."""
        return ratio(self.counted_tokens, self.counted_rack_j)

    @property
    def per_joule_with_cooling(self) -> float | None:
        """Tokens per joule of racks and cooling in the time counted."""
        return ratio(self.counted_tokens, self.counted_rack_j + self.counted_cooling_j)

    def power(self) -> dict[str, Any]:
        """The `power` part of the demo's answer."""
        return {
            "overload_s": round(self.overload_s, 3),
            "redundancy_lost_s": round(self.redundancy_lost_s, 3),
            "tripped": self.tripped,
            "worst_headroom_w": finite(self.worst_headroom_w),
            "largest_step_w": round(self.largest_step_w, 1),
        }

    def overload_to_caps(self) -> dict[str, float] | None:
        """Seconds from an overload to its end, or until now if it has none; None without any."""
        lasting = [] if self._overload_since_s is None else [self.seconds - self._overload_since_s]
        if not (self.overloads_s or lasting):
            return None
        spans = np.array([*self.overloads_s, *lasting])
        return {"p50": round(float(np.median(spans)), 3), "max": round(float(spans.max()), 3)}

    def cooling(self) -> dict[str, Any]:
        """The `cooling` part of the demo's answer."""
        return {
            "below_dew_point_s": round(self.below_dew_s, 3),
            "thermal_throttle_s": round(self.throttle_s, 3),
            "setpoint_c": {loop.name: finite(loop.setpoint_c) for loop in self._plant.loops},
        }

    def tokens(self, of_clairvoyant: float | None) -> dict[str, Any]:
        """The `tokens` part of the demo's answer."""
        total = self.total_tokens
        sustained = float(np.percentile(self.sustained, 5.0)) if self.sustained else None
        return {
            "total": total,
            "per_s": ratio(total, self.seconds),
            "per_joule_rack": self.per_joule_rack,
            "per_joule_with_cooling": self.per_joule_with_cooling,
            "sustained_p5_per_joule_rack": sustained,
            "of_clairvoyant": of_clairvoyant,
        }

    def uncontrolled(self) -> dict[str, Any]:
        """The `uncontrolled` part of the demo's answer, of the twin's account."""
        return {
            "tripped": self.tripped,
            "overload_s": round(self.overload_s, 3),
            "thermal_throttle_s": round(self.throttle_s, 3),
            "tokens_per_joule_rack": self.per_joule_rack,
            "tokens_per_s": ratio(self.total_tokens, self.seconds),
        }


def ratio(above: float, below: float) -> float | None:
    """A quotient, None where there is nothing to divide by."""
    return above / below if below > 0.0 else None


def finite(value: float) -> float | None:
    """A number for JSON: None where it is not finite."""
    return value if math.isfinite(value) else None
