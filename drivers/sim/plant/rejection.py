"""Exchangers, dry cooler and chiller: the formulas that plant and clairvoyant share.

Sources: counter-flow and cross-flow effectiveness-NTU (Kays and London); dry cooler UA ~ air^0.6
and fan power ~ air^3; Carnot share for the chiller, with a least lift.
"""

from __future__ import annotations

import math


def counter_flow(ua_w_k: float, c1_w_k: float, c2_w_k: float) -> float:
    """Heat per kelvin of inlet temperature difference of a counter-flow exchanger, W/K."""
    least, most = (c1_w_k, c2_w_k) if c1_w_k < c2_w_k else (c2_w_k, c1_w_k)
    if least <= 0.0:
        return 0.0
    ntu, ratio = ua_w_k / least, least / most
    if ratio > 0.9999:
        return least * ntu / (1.0 + ntu)
    decay = math.exp(-ntu * (1.0 - ratio))
    return least * (1.0 - decay) / (1.0 - ratio * decay)


def cross_flow(ua_w_k: float, c1_w_k: float, c2_w_k: float) -> float:
    """The same with both streams crossing unmixed."""
    least, most = (c1_w_k, c2_w_k) if c1_w_k < c2_w_k else (c2_w_k, c1_w_k)
    if least <= 0.0:
        return 0.0
    ntu, ratio = ua_w_k / least, least / most
    if ntu <= 0.0:
        return 0.0
    inner = math.exp(-ratio * ntu**0.78) - 1.0
    return least * (1.0 - math.exp(ntu**0.22 / ratio * inner))


def chiller_cop(water_c: float, ambient_c: float, lift_k: float, carnot: float) -> float:
    """Coefficient of performance of an air-cooled trim chiller making `water_c`."""
    lift = max(ambient_c + lift_k - water_c, 8.0)
    return min(carnot * (water_c + 273.15) / lift, 20.0)
