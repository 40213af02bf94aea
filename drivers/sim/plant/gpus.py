"""All accelerator boards of the hall at once: draw, junction temperature, tokens.

Columns are boards, grouped by node in file order. A board draws the least of its limit (with its
own seeded error), what its load asks for at its temperature, and the slowdown power while the
hardware throttles it. Tokens follow x = (C - C0)/k, T = Tm·x/(1 + x^n)^(1/n) with C the draw less
the leakage above that of the reference temperature, at which the curve is stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivers.sim.plant.electrical import BoolArray
from drivers.sim.plant.parameters import GpuData
from facility.config import Facility, Node
from facility.points import FloatArray, IntArray


@dataclass(frozen=True)
class BoardConstants:
    """What does not change on a board.

    Attributes:
        node: int64[G]; index of its node.
        least_w, most_w: float64[G]; legal range of the power limit.
        tm, c0_w, k_w, n: float64[G]; token curve at the reference temperature.
        draw_factor: float64[G]; draw of a capped board over its limit.
        resistance: float64[G]; K/W of the plate and its board at design flow.
        capacity_j_k: float64[G]; thermal mass.
        leak_w: float64[G]; leakage at the reference temperature.
        reference_c: float64[G]; junction temperature at which the token curve holds.
        flow_share, flow_exponent: float64[G]; part of R that the flow moves, and how.
    """

    node: IntArray
    least_w: FloatArray
    most_w: FloatArray
    tm: FloatArray
    c0_w: FloatArray
    k_w: FloatArray
    n: FloatArray
    draw_factor: FloatArray
    resistance: FloatArray
    capacity_j_k: FloatArray
    leak_w: FloatArray
    reference_c: FloatArray
    flow_share: FloatArray
    flow_exponent: FloatArray

    @classmethod
    def of(cls, facility: Facility, data: GpuData, rng: np.random.Generator) -> BoardConstants:
        """Lay out the boards of a facility; `rng` draws mounting spread and limit error."""
        loop_of = {rack: loop for loop in facility.cooling.loops.values() for rack in loop.racks}
        rows: list[tuple[float, ...]] = []
        for index, node in enumerate(facility.nodes.values()):
            loop = loop_of.get(node.rack)
            cooling = (
                (data.air_resistance, 0.0, 1.0, 0.003)
                if loop is None
                else (
                    loop.gpu_resistance,
                    loop.gpu_flow_share,
                    loop.gpu_flow_exponent,
                    loop.leakage_per_k,
                )
            )
            row = (float(index), node.min_cap, node.max_cap, *_curve(node), *cooling)
            rows.extend([row] * node.gpus)
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 11)
        most, nominal, leak_per_k = table[:, 2], table[:, 7], table[:, 10]
        boards = len(rows)
        spread = 1.0 + data.resistance_spread * rng.uniform(-1.0, 1.0, boards)
        accuracy = facility.power.board_accuracy * data.board_error_share
        return cls(
            node=table[:, 0].astype(np.int64),
            least_w=table[:, 1],
            most_w=most,
            tm=table[:, 3],
            c0_w=table[:, 4],
            k_w=table[:, 5],
            n=table[:, 6],
            draw_factor=1.0 + accuracy * rng.uniform(-1.0, 1.0, boards),
            resistance=nominal * spread,
            capacity_j_k=data.time_constant_s / nominal,
            leak_w=leak_per_k * data.reference_share * most / data.leakage_exponent_per_k,
            reference_c=data.reference_supply_c + nominal * data.reference_share * most,
            flow_share=table[:, 8],
            flow_exponent=table[:, 9],
        )


def _curve(node: Node) -> tuple[float, float, float, float]:
    """The stated token curve, or the prior of a big board (research: C0 0.2, knee 0.6, n 4)."""
    if node.curve is not None:
        return (node.curve.tm, node.curve.c0, node.curve.k, node.curve.n)
    return (1000.0 * node.max_cap / 700.0, 0.2 * node.max_cap, 0.43 * node.max_cap, 4.0)


def tokens_of(boards: BoardConstants, useful_w: FloatArray) -> FloatArray:
    """tok/s at `useful_w` watts that do not leak away. Shapes broadcast over boards."""
    x = np.maximum(useful_w - boards.c0_w, 0.0) / boards.k_w
    return np.asarray(boards.tm * x / (1.0 + x**boards.n) ** (1.0 / boards.n))


def useful_w_for(boards: BoardConstants, tokens_per_s: FloatArray) -> FloatArray:
    """The inverse of `tokens_of`; tokens_per_s below tm."""
    y = np.clip(tokens_per_s / boards.tm, 0.0, 1.0 - 1e-9)
    return np.asarray(boards.c0_w + boards.k_w * y / (1.0 - y**boards.n) ** (1.0 / boards.n))


def extra_leakage_w(boards: BoardConstants, data: GpuData, temperature_c: FloatArray) -> FloatArray:
    """Leakage above that at the reference temperature, W (negative when colder)."""
    rise = temperature_c - boards.reference_c
    return np.asarray(boards.leak_w * np.expm1(data.leakage_exponent_per_k * rise))


def resistance_at(boards: BoardConstants, flow_ratio: FloatArray) -> FloatArray:
    """K/W at a flow given as a share of design flow: R·((1-s) + s·ratio^-exponent)."""
    ratio = np.maximum(flow_ratio, 0.01)
    return np.asarray(
        boards.resistance
        * (1.0 - boards.flow_share + boards.flow_share * ratio**-boards.flow_exponent)
    )


class GpuBank:
    """The state of all boards.

    Attributes:
        limit_w: float64[G]; the limit set by software.
        temperature_c, power_w, tokens_per_s: float64[G]; now.
        throttled, off: bool[G]; hardware slowdown; powered off by its own protection.
    """

    def __init__(self, boards: BoardConstants, data: GpuData, limit_w: FloatArray) -> None:
        self.boards = boards
        self.data = data
        count = len(boards.node)
        self.limit_w = limit_w.copy()
        self.temperature_c: FloatArray = boards.reference_c.copy()
        self.power_w: FloatArray = np.zeros(count)
        self.tokens_per_s: FloatArray = np.zeros(count)
        self.throttled: BoolArray = np.zeros(count, dtype=np.bool_)
        self.off: BoolArray = np.zeros(count, dtype=np.bool_)
        self._full_tok_s = tokens_of(boards, boards.most_w)
        self._offered_tok_s = self._full_tok_s
        self._wanted_w = boards.most_w
        self._draw_factor = boards.draw_factor
        self._slowdown_w = data.throttle_share * boards.most_w
        self._resistance = boards.resistance
        self._flow_ratio: FloatArray = np.ones(count)

    def offer(self, share: FloatArray, ripple: FloatArray) -> None:
        """Set the offered load.

        Args:
            share: float64[G]; of what a board serves at full power.
            ripple: float64[G]; present swing of a capped board's draw, share of its cap.
        """
        self._draw_factor = self.boards.draw_factor + ripple
        self._offered_tok_s = share * self._full_tok_s
        self._wanted_w = useful_w_for(self.boards, np.minimum(share, 1.0) * self._full_tok_s)

    @property
    def offered_tok_s(self) -> FloatArray:
        """float64[G]: offered load, tok/s."""
        return self._offered_tok_s

    def flow(self, ratio: FloatArray) -> None:
        """Set the flow past each board as a share of its design flow, float64[G]."""
        if np.array_equal(ratio, self._flow_ratio):
            return
        self._flow_ratio = ratio
        self._resistance = resistance_at(self.boards, ratio)

    def step(self, dt_s: float, inlet_c: FloatArray, powered: BoolArray) -> FloatArray:
        """Move on by dt; returns float64[G], W handed to the coolant (or to the air)."""
        data, boards = self.data, self.boards
        temperature = self.temperature_c
        hot = temperature >= data.slowdown_c
        if hot.any() or self.throttled.any():
            self.throttled = hot | (
                self.throttled & (temperature > data.slowdown_c - data.resume_k)
            )
            self.throttled &= powered & ~self.off
            self.off |= temperature >= data.shutdown_c
        leak = extra_leakage_w(boards, data, temperature)
        power = np.minimum(self.limit_w * self._draw_factor, self._wanted_w + leak)
        if self.throttled.any():
            power = np.where(self.throttled, np.minimum(power, self._slowdown_w), power)
        if self.off.any() or not powered.all():
            power = np.where(powered & ~self.off, power, 0.0)
        self.power_w = power
        served = np.minimum(tokens_of(boards, power - leak), self._offered_tok_s)
        self.tokens_per_s = np.where(power > 0.0, served, 0.0)
        heat = (temperature - inlet_c) / self._resistance
        self.temperature_c = temperature + (power - heat) * (dt_s / boards.capacity_j_k)
        return np.asarray(heat)

    @property
    def capped(self) -> BoolArray:
        """bool[G]: boards that their limit holds back."""
        return np.asarray(self.power_w >= self.limit_w * self._draw_factor - 1e-6)

    @property
    def stored_j(self) -> float:
        """Heat stored in the boards above 0 degC, J."""
        return float(np.dot(self.boards.capacity_j_k, self.temperature_c))

    def clear(self) -> None:
        """Forget slowdowns and shutdowns (boards that were switched off and on)."""
        self.throttled[:] = False
        self.off[:] = False
