"""The best that anyone could have done: true parameters, present load and weather, quasi-static.

For each recorded moment it chooses node caps and supply temperature for the most tokens per joule
of racks and cooling (policy `efficiency`) or the most tokens and then the fewest joules
(`throughput`), under the same N+1 limits on true loads, floors, and cooling limits. Its own
method: caps by price on a grid (Lagrange, prices by bisection per violated limit), supply
temperature by ternary search, the ratio by Dinkelbach's iteration. It shares physics formulas with
the plant and nothing with the controllers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from drivers.sim.plant.cooling import LoopSize, cooler_w_per_k
from drivers.sim.plant.gpus import extra_leakage_w, resistance_at, tokens_of, useful_w_for
from drivers.sim.plant.parameters import WATER_W_PER_LPM_K
from drivers.sim.plant.plant import Hall, Plant
from drivers.sim.plant.rejection import chiller_cop
from facility.points import FloatArray

_GRID: Final = 61
_TERNARY: Final = 9
_SWEEPS: Final = 12


@dataclass(frozen=True)
class Moment:
    """What the clairvoyant is told of one moment.

    Attributes:
        lost, flat: electrical state.
        offered: float64[G]; offered load, tok/s.
        up: bool[R]; racks that work.
        other_w: float64; loads that are not racks, W each (file order).
        flow_ratio: of each loop.
        pump_w: pumps and controls of all CDUs.
        ambient_c, dew_c: outdoors; dew point of the room.
        room_c: air of the room, for boards without liquid.
    """

    lost: frozenset[str]
    flat: frozenset[str]
    offered: FloatArray
    up: FloatArray
    other_w: FloatArray
    flow_ratio: tuple[float, ...]
    pump_w: float
    ambient_c: float
    dew_c: float
    room_c: float

    @classmethod
    def of(cls, plant: Plant) -> Moment:
        """Record a plant's surroundings and health, not its caps or set-points."""
        return cls(
            plant.lost,
            plant.flat,
            plant.bank.offered_tok_s.copy(),
            plant.rack_up.astype(np.float64),
            plant.load_w[len(plant.hall.racks) :].copy(),
            tuple(loop.flow_ratio for loop in plant.loops),
            sum(cdu.power_w for loop in plant.loops for cdu in loop.cdus),
            plant.outside.ambient_c,
            plant.room.dew_c,
            plant.room.air_c,
        )


@dataclass(frozen=True)
class _Choice:
    tokens_per_s: float
    watts: float


class Clairvoyant:
    """Solves moments as they come and remembers their sums."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        facility = hall.facility
        self._efficiency = facility.controllers.allocation.policy == "efficiency"
        nodes = facility.nodes.values()
        low = np.array([n.min_cap if n.floor is None else n.floor for n in nodes])
        high = np.array([n.max_cap for n in nodes])
        part = np.linspace(0.0, 1.0, _GRID)
        #: float64[N, K]: caps to choose from.
        self._caps: FloatArray = low[:, None] + (high - low)[:, None] * part[None, :]
        self._solved = 0
        self._tokens_per_s = 0.0
        self._watts = 0.0
        loops = facility.cooling.loops.values()
        self._sizes = [LoopSize.of(loop, hall.data.loop) for loop in loops]
        self._ratio = 0.2
        settings = facility.controllers.cooling
        self._dew_guard_k = settings.dew_margin + settings.sensor_uncertainty + settings.undershoot
        self._hot_guard_k = settings.margin

    def look(self, moment: Moment) -> None:
        """Solve one moment and count it; a few hundred at once would stop the plant's servers."""
        choice = self._solve(moment)
        self._solved += 1
        self._tokens_per_s += choice.tokens_per_s
        self._watts += choice.watts

    @property
    def tokens_per_joule(self) -> float | None:
        """Over all moments: sum of tokens over sum of joules; None without any."""
        return self._tokens_per_s / self._watts if self._watts > 0.0 else None

    def _solve(self, moment: Moment) -> _Choice:
        weights, limits = self._limits(moment)
        loops = self._hall.facility.cooling.loops.values()
        low = max([moment.dew_c + self._dew_guard_k, *(lp.supply_min for lp in loops)])
        high = max(min([lp.supply_max for lp in loops], default=low), low)
        best = _Choice(0.0, 0.0)
        # The ratio carries over from one moment to the next; only the first has to find it.
        for _ in range(1 if self._solved else 3):
            left, right = low, high
            best = self._at(moment, (low + high) / 2.0, weights, limits)
            for _ in range(_TERNARY):
                a, b = left + (right - left) / 3.0, right - (right - left) / 3.0
                at_a, at_b = (self._at(moment, x, weights, limits) for x in (a, b))
                worth_a, worth_b = (self._worth(c) for c in (at_a, at_b))
                here = at_a if worth_a >= worth_b else at_b
                if self._worth(here) > self._worth(best):
                    best = here
                left, right = (left, b) if worth_a >= worth_b else (a, right)
                if right - left < 0.2:
                    break
            if best.watts > 0.0 and best.tokens_per_s > 0.0:
                self._ratio = best.tokens_per_s / best.watts
        return best

    def _worth(self, choice: _Choice) -> float:
        """What a choice is worth at the present ratio: tokens less the price of watts."""
        price = self._ratio if self._efficiency else 1e-6
        return choice.tokens_per_s - price * choice.watts

    def _limits(self, moment: Moment) -> tuple[FloatArray, FloatArray]:
        """Rows W·P <= limit over racks: every single loss of the whole plant, and the present."""
        network = self._hall.network
        racks = len(self._hall.racks)
        cases, case_limits = network.contingencies(frozenset(), frozenset())
        rows, limits = [cases], [case_limits]
        for flow in (
            network.flow(frozenset(), frozenset()),
            network.flow(moment.lost, moment.flat),
        ):
            rated = np.isfinite(network.limit_w) & ~flow.dead
            rows.append(flow.weights[rated])
            limits.append(network.limit_w[rated])
        weights, limit = np.vstack(rows), np.concatenate(limits)
        left = limit - weights[:, racks:] @ moment.other_w
        on_racks = weights[:, :racks]
        matters = on_racks.any(axis=1)
        return on_racks[matters], left[matters]

    def _tables(self, moment: Moment, supply_c: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per node and cap: tok/s, watts at the plug, and whether it stays cool enough."""
        hall, boards, data = self._hall, self._hall.boards, self._hall.data.gpu
        ratios = np.array([*moment.flow_ratio, 1.0])[hall.board_loop]
        inlets = np.array([*([supply_c] * len(moment.flow_ratio)), moment.room_c])
        inlet = inlets[hall.board_loop][:, None]
        resistance = resistance_at(boards, ratios)[:, None]
        caps = (self._caps[boards.node] * boards.draw_factor[:, None]).T
        full = tokens_of(boards, boards.most_w)
        wanted = useful_w_for(boards, np.minimum(moment.offered, full))[:, None]
        power = np.minimum(caps.T, wanted)
        for _ in range(3):
            hot = inlet + resistance * power
            leak = extra_leakage_w(boards, data, hot.T).T
            power = np.minimum(caps.T, wanted + leak)
        served = tokens_of(boards, (power - leak).T).T
        served = np.minimum(served, moment.offered[:, None])
        cool = hot <= data.slowdown_c - self._hot_guard_k
        first = hall.first_board[:-1]
        node_w = np.add.reduceat(power, first, axis=0) / hall.facility.power.psu_efficiency
        up = moment.up[hall.node_rack][:, None]
        return (
            np.add.reduceat(served, first, axis=0) * up,
            (node_w + hall.node_overhead_w[:, None]) * up,
            np.logical_and.reduceat(cool, first, axis=0),
        )

    def _at(
        self, moment: Moment, supply_c: float, weights: FloatArray, limits: FloatArray
    ) -> _Choice:
        hall = self._hall
        if not len(hall.nodes):
            return _Choice(0.0, 0.0)
        tokens, watts, cool = self._tables(moment, supply_c)
        tokens = np.where(cool, tokens, -1e6 * np.arange(1, tokens.shape[1] + 1)[None, :])
        base = hall.rack_base_w * moment.up
        guess = base.sum() + watts[:, _GRID // 2].sum()
        slope = (
            self._cooling_w(moment, supply_c, guess * 1.02)
            - self._cooling_w(moment, supply_c, guess)
        ) / (guess * 0.02)
        price = self._ratio * (1.0 + slope) if self._efficiency else 1e-6
        pick = self._priced(tokens, watts, price, base, weights, limits)
        rows = np.arange(len(pick))
        total = float(base.sum() + watts[rows, pick].sum())
        made = float(np.maximum(tokens[rows, pick], 0.0).sum())
        return _Choice(made, total + self._cooling_w(moment, supply_c, total))

    def _priced(
        self,
        tokens: FloatArray,
        watts: FloatArray,
        price: float,
        base: FloatArray,
        weights: FloatArray,
        limits: FloatArray,
    ) -> FloatArray:
        """Index of each node's best cap at the prices that keep every limit."""
        hall = self._hall
        racks = len(hall.racks)
        prices = np.zeros(len(limits))
        rows = np.arange(len(hall.nodes))

        def best(extra: FloatArray) -> tuple[FloatArray, FloatArray]:
            per_node = price + extra[hall.node_rack]
            pick = np.argmax(tokens - per_node[:, None] * watts, axis=1)
            rack_w = base + np.bincount(hall.node_rack, watts[rows, pick], racks)
            return pick, rack_w

        pick, rack_w = best(prices @ weights)
        for _ in range(_SWEEPS):
            excess = weights @ rack_w - limits
            worst = int(np.argmax(excess / np.maximum(np.abs(limits), 1.0))) if len(limits) else -1
            if worst < 0 or excess[worst] <= 1e-6:
                break
            low, high = prices[worst], max(prices[worst] * 2.0, price, 0.01)
            for step in range(40):
                prices[worst] = high if step < 12 else (low + high) / 2.0
                pick, rack_w = best(prices @ weights)
                over = bool(weights[worst] @ rack_w > limits[worst])
                if step < 12 and over:
                    low, high = high, high * 3.0
                elif over:
                    low = prices[worst]
                else:
                    high = prices[worst]
                if high - low < 1e-4 * max(high, 1e-9):
                    break
            prices[worst] = high
            pick, rack_w = best(prices @ weights)
        return pick

    def _cooling_w(self, moment: Moment, supply_c: float, racks_w: float) -> float:
        """Pumps, fans, chiller and room units at rest, W, loops sharing heat by capacity."""
        hall, data = self._hall, self._hall.data
        liquid = hall.liquid_share.mean(axis=1) if len(hall.loop_names) else np.zeros(0)
        air = racks_w * float(hall.air_share.mean())
        total = moment.pump_w + air / data.room.units_cop
        for size, share in zip(self._sizes, liquid.tolist(), strict=True):
            target = supply_c - data.loop.primary_approach_k
            pumped = size.primary_lpm * WATER_W_PER_LPM_K
            heat = racks_w * share
            lift = target + heat / pumped - moment.ambient_c
            fan = 1.0
            if lift > 0.0 and cooler_w_per_k(size, 1.0, pumped) * lift >= heat:
                low, high = 0.0, 1.0
                for _ in range(20):
                    fan = (low + high) / 2.0
                    enough = cooler_w_per_k(size, fan, pumped) * lift >= heat
                    low, high = (low, fan) if enough else (fan, high)
            cooled = cooler_w_per_k(size, fan, pumped) * max(lift, 0.0)
            cop = chiller_cop(
                target, moment.ambient_c, data.loop.chiller_lift_k, data.loop.chiller_carnot
            )
            total += size.fan_w * fan**3 + max(heat - cooled, 0.0) / cop
        return total
