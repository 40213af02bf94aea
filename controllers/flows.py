"""What the meters of the feeds say of the elements above them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from facility.points import FloatArray, IntArray
from facility.topology import Topology

#: A meter that carries nothing may show as much as this below it.
ZERO_W: Final = 50.0


def drawn_w(reading_w: FloatArray) -> FloatArray:
    """float64[n]: what flows down through meters, W; less than nothing is no reading, so NaN.

    A sensor that was put in the wrong way round must not make a load look smaller.
    """
    with np.errstate(invalid="ignore"):
        return np.where(reading_w < -ZERO_W, np.nan, np.maximum(reading_w, 0.0))


class _ByIdentity:
    """Makes a topology a cache key by identity."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.topology is self.topology


@dataclass(frozen=True, eq=False)
class Weights:
    """W on an element per W on a feed, as the plant stands; int64[M], int64[M], float64[M]."""

    element: IntArray
    feed: IntArray
    weight: FloatArray


@lru_cache(maxsize=16)
def _weights(key: _ByIdentity) -> Weights:
    c = key.topology.compiled
    pair = c.feed_pair[c.entry_feed]
    on = (c.pair_case[pair] == 0) & (c.entry_weight > 0.0)
    return Weights(c.entry_element[on], c.feed_column[c.entry_feed[on]], c.entry_weight[on])


def feed_weights(topology: Topology) -> Weights:
    """What each feed puts on each element as the plant stands, found once per topology."""
    return _weights(_ByIdentity(topology))


def from_feeds_w(topology: Topology, feed_w: FloatArray) -> FloatArray:
    """float64[E]: load of each element as its feeds' meters tell it; NaN unless all are read.

    Below a switch that may stand on either side, both sides carry it: never too little.

    Args:
        topology: the plant as it is.
        feed_w: float64[F], W of each feed; NaN: not read.
    """
    w = feed_weights(topology)
    carried = np.bincount(w.element, w.weight * feed_w[w.feed], len(topology.elements))
    return np.asarray(carried, dtype=np.float64)
