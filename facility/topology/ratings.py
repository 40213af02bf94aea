"""What a rating written in a facility file means in watts that may flow for hours.

Three-phase apparent power is √3·V_LL·I = 3·V_LN·I; VA become W with the element's power factor.
The continuous share of amp ratings is NEC 210.20(A) and 215.3 (80 % unless listed for 100 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from facility import config
from facility.quantities import share_of
from facility.units import QuantityError, parse_quantity

#: Kinds whose amp rating counts at 80 % unless the file says otherwise.
CONTINUOUS_80: Final = frozenset({"branch", "busway", "pdu", "rack_pdu"})


@dataclass(frozen=True, slots=True)
class Limit:
    """What one element may carry.

    Attributes:
        rating_w: least of its ratings in W, continuous share not applied; inf when unrated.
        limit_w: least of rating × continuous share, W; inf when unrated.
        phase_limit_w: W that one phase of a three-phase amp rating may carry (a third of that
            rating's limit); inf where there is no such rating.
        power_factor: the factor that turned VA into W, None where all ratings are in W.
        share: part of the element that is this hall's; the W above are of that part.
    """

    rating_w: float
    limit_w: float
    phase_limit_w: float
    power_factor: float | None
    share: float = 1.0


def amps_va(rating: config.CurrentRating) -> float:
    """Apparent power of an amp rating, VA.

    Raises:
        ValueError: not exactly one of voltage_ll and voltage_ln is stated.
    """
    ll, ln = rating.voltage_ll, rating.voltage_ln
    if (ll is None) == (ln is None):
        raise ValueError("an amp rating needs either voltage_ll or voltage_ln")
    if rating.phases == 1:
        return rating.current * (ll if ll is not None else ln or 0.0)
    if ll is not None:
        return math.sqrt(3.0) * ll * rating.current
    return 3.0 * (ln or 0.0) * rating.current


def text_rating(text: str) -> tuple[float, bool]:
    """Read "450 kW" or "500 kVA".

    Returns:
        The number in W or VA, and whether it is VA.

    Raises:
        ValueError: neither a power nor an apparent power, or not above zero.
    """
    for quantity, apparent in (("power", False), ("apparent_power", True)):
        try:
            value = parse_quantity(text, quantity)
        except QuantityError:
            continue
        if value <= 0.0:
            raise ValueError(f"{text!r} must be above zero")
        return value, apparent
    raise ValueError(f"{text!r} is no rating; write it like 450 kW or 500 kVA, or as amps")


def ratings_of(element: config.Element) -> tuple[str | config.CurrentRating, ...]:
    """The ratings of an element as a tuple; empty when unrated."""
    rating = element.rating
    return rating if isinstance(rating, tuple) else (rating,)


def limit_of(element: config.Element) -> Limit:
    """What an element may carry; each of its ratings holds.

    Raises:
        ValueError: a rating that cannot be read.
    """
    rating_w = limit_w = phase_w = math.inf
    apparent_seen = False
    for rating in ratings_of(element):
        share = element.continuous if element.continuous is not None else 1.0
        if isinstance(rating, config.CurrentRating):
            if element.continuous is None and element.kind in CONTINUOUS_80:
                share = 0.8
            watts = amps_va(rating) * element.power_factor
            apparent_seen = True
            if rating.phases == 3:
                phase_w = min(phase_w, watts * share / 3.0)
        else:
            watts, apparent = text_rating(rating)
            if apparent:
                watts *= element.power_factor
                apparent_seen = True
        rating_w, limit_w = min(rating_w, watts), min(limit_w, watts * share)
    if element.module_rating is not None and element.modules is not None:
        needs = element.needs if element.needs is not None else element.modules
        watts = needs * element.module_rating
        share = element.continuous if element.continuous is not None else 1.0
        rating_w, limit_w = min(rating_w, watts), min(limit_w, watts * share)
    factor = element.power_factor if apparent_seen else None
    return _shared(Limit(rating_w, limit_w, phase_w, factor), element.share)


def _shared(whole: Limit, text: str | None) -> Limit:
    """This hall's part of an element that other halls use too.

    Watts are a part of what may flow for hours; of an unrated element they are the only limit.
    """
    if text is None:
        return whole
    part, watts = share_of(text)
    if part is None and watts is not None:
        if not math.isfinite(whole.limit_w):
            return replace(whole, rating_w=watts, limit_w=watts)
        part = min(watts / whole.limit_w, 1.0)
    share = 1.0 if part is None else part
    return Limit(
        whole.rating_w * share,
        whole.limit_w * share,
        whole.phase_limit_w * share,
        whole.power_factor,
        share,
    )
