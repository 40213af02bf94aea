"""Merged curves in pieces: what a lump earns with its first, second, … kW, cut at prices.

Cut at one price, all nodes of a rack are where a watt earns them just that; so the chord from one
price to the next is a piece of the rack's best worth for each power, exact at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from controllers.allocation.rows import Pool
from controllers.allocation.stage.market import Market
from controllers.allocation.stage.program import Columns, Held, Program
from facility.points import FloatArray, IntArray
from facility.topology.graph import BoolArray

#: Cuts as shares of the way from what a watt costs to the most that one earns.
COARSE: Final = (1.0, 0.97, 0.92, 0.85, 0.75, 0.62, 0.5, 0.38, 0.27, 0.18, 0.1, 0.05, 0.02, 0.0)
#: Cuts around a price, in units of a width, beside those at both ends; as many as COARSE has.
AROUND: Final = (8.0, 4.0, 2.0, 1.0, 0.4, 0.1, 0.0, -0.1, -0.4, -1.0, -2.0, -4.0, -8.0)


@dataclass(frozen=True, eq=False)
class Cut:
    """The class cut into pieces.

    Attributes:
        columns: pieces of lumps first, row by row of `edge_kw`; then one chord per undecided unit.
        edge_cap_w: float64[J + 1, u]; caps at each cut; where a unit runs.
        edge_kw: float64[lumps, J + 1]; amounts at each cut.
    """

    columns: Columns
    edge_cap_w: FloatArray
    edge_kw: FloatArray


class Pieces:
    """The class as columns and rows of a program; lumps are numbered among those of the class.

    Attributes:
        lumps: int64[lumps], numbers in the problem; of_unit: int64[u], local.
        undecided: int64[k], units of the class that may be parked and are not settled.
        held: bool[L], loads whose draw is a column of its own.
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        problem = market.problem
        self.lumps, self.of_unit = np.unique(market.lump, return_inverse=True)
        slope = problem.units.slope(_whole(market))[market.mine]
        self.top = np.zeros(len(self.lumps))
        np.maximum.at(self.top, self.of_unit, slope / np.maximum(market.part, 1e-300))
        self.top *= 1.0 + 1e-9
        self.own = problem.lumps.prices(problem.price_w)[self.lumps]
        self.undecided: IntArray = np.flatnonzero(market.choice == 0)
        least = problem.lumps.loads_w(market.amounts(market.least()))
        self.least_w = market.base_w + least
        wants = problem.metered_w > self.least_w
        parks = np.zeros(len(wants), dtype=np.bool_)
        of_parks = market.lump[self.undecided]
        parks[of_parks[of_parks < len(wants)]] = True
        self.held: BoolArray = np.asarray(wants & (market.has_wide | parks))
        self.free_kw = np.zeros(problem.lumps.count)
        self.free_kw[: len(wants)] = np.where(
            market.has_own & wants & ~self.held, problem.metered_w - self.least_w, 0.0
        )
        self.free_kw = self.free_kw[self.lumps] / 1000.0
        self.base_w = np.where(self.held, self.least_w, np.maximum(self.least_w, problem.metered_w))

    def coarse(self) -> FloatArray:
        """float64[lumps, cuts]: prices over the whole range."""
        span = np.maximum(self.top - self.own, 0.0)
        cuts = self.own[:, None] + span[:, None] * np.array(COARSE)[None, :]
        return np.hstack([np.maximum(cuts, 0.0), np.zeros((len(self.top), 1))])

    def around(self, load_price: FloatArray, width: float) -> FloatArray:
        """float64[lumps, cuts]: prices around those found, and both ends."""
        price = self.market.problem.lumps.prices(load_price)[self.lumps]
        middle = np.clip(price, 1e-6 * self.top, self.top)
        cuts = middle[:, None] * (1.0 + width * np.array(AROUND))[None, :]
        ends = np.hstack([self.top[:, None], cuts, np.zeros((len(cuts), 1))])
        return np.clip(ends, 0.0, self.top[:, None])

    def cut(self, prices: FloatArray) -> Cut:
        """The class cut at falling prices, float64[lumps, cuts]."""
        market, problem = self.market, self.market.problem
        runs, count = market.choice >= 0, len(self.lumps)
        caps, amounts, worths = [], [], []
        for j in range(prices.shape[1]):
            answer = market.response.at(market.part * prices[self.of_unit, j], runs)
            caps.append(answer.cap_w)
            amounts.append(np.bincount(self.of_unit, market.part * answer.cap_w, count))
            worths.append(np.bincount(self.of_unit, answer.worth, count))
        edge_kw, worth = np.stack(amounts, axis=1) / 1000.0, np.stack(worths, axis=1)
        width = np.maximum(np.diff(edge_kw, axis=1), 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = np.where(width > 0.0, np.diff(worth, axis=1) / width, 0.0)
        own = self.own_kw()
        # What a metered peak counts anyhow costs nothing more.
        done = np.cumsum(width, axis=1) - width
        paid = width - np.clip(self.free_kw[:, None] - done, 0.0, width)
        lump = np.repeat(np.arange(count), width.shape[1])
        i, response = self.undecided, market.response
        chord_kw = market.part[i] * (response.start[i] - response.low[i]) / 1000.0
        rise = response.worth_start[i] - response.worth_low[i]
        # Earlier in the file runs first where two would earn the same.
        order = 1.0 - 1e-8 * i / max(len(problem.unit), 1)
        chord = rise / np.maximum(chord_kw, 1e-300) * order - own[self.of_unit[i]]
        columns = Columns(
            lump=np.concatenate([lump, self.of_unit[i]]),
            slope=np.concatenate([(slope - own[:, None]).ravel(), chord]),
            least=np.zeros(len(lump) + len(i)),
            most=np.concatenate([paid.ravel(), chord_kw]),
        )
        return Cut(columns, np.stack(caps), edge_kw)

    def own_kw(self) -> FloatArray:
        """float64[lumps]: λ of a kW that is not drawn through a held load."""
        problem = self.market.problem
        price = np.where(self.held, 0.0, problem.price_w)
        return np.asarray(1000.0 * problem.lumps.prices(price)[self.lumps])

    def held_loads(self) -> Held:
        """The columns of held loads."""
        problem = self.market.problem
        on = np.flatnonzero(self.held)
        one = np.zeros((len(on), len(self.held)))
        one[np.arange(len(on)), on] = 1.0
        covers = problem.lumps.columns(one)[:, self.lumps]
        least = (problem.metered_w - self.least_w)[on] / 1000.0
        return Held(-1000.0 * problem.price_w[on], least, covers)

    def limit(self, program: Program, pool: Pool) -> None:
        """Write the rows of the pool that the program does not have yet into it."""
        fresh = pool.matrix[program.rows :]
        if len(fresh):
            own = np.where(self.held[None, :], 0.0, fresh)
            columns = self.market.problem.lumps.columns(own)[:, self.lumps]
            room = np.maximum(pool.limit_w[program.rows :] - fresh @ self.base_w, 0.0)
            program.limit(columns, fresh[:, self.held], room / 1000.0)

    def load_w(self, columns: Columns, value_kw: FloatArray) -> FloatArray:
        """float64[L]: W of every load at what the program bought."""
        lumps = self.market.problem.lumps
        amount = np.zeros(lumps.count)
        paid = np.bincount(columns.lump, value_kw, len(self.lumps))
        amount[self.lumps] = 1000.0 * (paid + self.free_kw)
        return np.maximum(self.least_w + lumps.loads_w(amount), self.market.problem.metered_w)

    def caps_w(self, cut: Cut, value_kw: FloatArray) -> FloatArray:
        """float64[u]: caps that use what the program bought; nothing undecided may be left."""
        pieces = cut.edge_kw.shape[1] - 1
        bought = value_kw[: len(self.lumps) * pieces].reshape(-1, pieces)
        width = np.maximum(np.diff(cut.edge_kw, axis=1), 0.0)
        done = np.cumsum(width, axis=1) - width
        taken = bought + np.clip(self.free_kw[:, None] - done, 0.0, width)
        share = np.where(width > 0.0, taken / np.where(width > 0.0, width, 1.0), 0.0)
        steps = np.diff(cut.edge_cap_w, axis=0)
        return np.asarray(
            cut.edge_cap_w[0] + np.sum(np.clip(share, 0.0, 1.0)[self.of_unit].T * steps, axis=0)
        )


def _whole(market: Market) -> FloatArray:
    """float64[U]: caps with each unit of the class at its tangent point."""
    return market.with_caps(market.response.start)
