"""Stated token curves of one GPU: x = (C - c0)/k, T = tm·x/(1 + x^n)^(1/n) above c0, else 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from facility.config import Curve, Facility
from facility.points import FloatArray


@dataclass(frozen=True, slots=True)
class StatedCurve:
    """One node's curve as the file states it; W and tok/s of one GPU."""

    tm: float
    c0_w: float
    k_w: float
    n: float

    @classmethod
    def of(cls, curve: Curve) -> StatedCurve:
        """From the file's units."""
        return cls(curve.tm, curve.c0, curve.k, curve.n)


def tokens_per_s(curve: StatedCurve, cap_w: FloatArray | float) -> FloatArray:
    """Tokens per second of one GPU at cap `cap_w`."""
    x = np.maximum((np.asarray(cap_w, dtype=np.float64) - curve.c0_w) / curve.k_w, 0.0)
    return np.asarray(curve.tm * x / (1.0 + x**curve.n) ** (1.0 / curve.n), dtype=np.float64)


def best_cap_w(curve: StatedCurve, overhead_w: float) -> float:
    """The cap with the most tokens per joule, `overhead_w` W per GPU being spent anyway.

    C* = c0 + k·((c0 + h)/k)^(1/(n+1)), the zero of d/dC of T/(C + h).
    """
    share = max((curve.c0_w + overhead_w) / curve.k_w, 0.0)
    return float(curve.c0_w + curve.k_w * share ** (1.0 / (curve.n + 1.0)))


def curves(facility: Facility) -> tuple[StatedCurve | None, ...]:
    """One per node in file order; None where the file states none (no claim is made then)."""
    return tuple(
        None if node.curve is None else StatedCurve.of(node.curve)
        for node in facility.nodes.values()
    )
