"""The load to expect in a window: the same hours of the same weekday in past weeks.

Per load the 99th percentile of the quarter-hour maxima of its metered power (the roll-ups that are
kept for years), with the meter's accuracy.
Feeds are summed bucket by bucket, maximum by maximum, which is never less than the maximum of the
sum. A load without enough history counts at its worst: nameplate, or all that its boards may draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from controllers.loads import caps_term_w
from facility.points import FloatArray
from facility.site import SiteModel

QUANTILE: Final = 0.99
#: Buckets of this length, s.
STEP_S: Final = 900.0
#: A week with fewer of its buckets measured says nothing.
COVERAGE: Final = 0.5


@dataclass(frozen=True, eq=False)
class Forecast:
    """What each load may draw in the window.

    Attributes:
        load_w: float64[L], W, accuracy included.
        from_history: bool as bytes per load: whether history said so; else its worst case.
        weeks: most weeks of history that any load has.
    """

    load_w: FloatArray
    from_history: tuple[bool, ...]
    weeks: int

    def to_json(self, site: SiteModel, when: str) -> dict[str, Any]:
        """Plain fields.

        Args:
            site: the site.
            when: the window in words, "Friday 02:00 to 04:00 UTC".
        """
        names = site.topology.loads
        without = [n for n, known in zip(names, self.from_history, strict=True) if not known]
        known = len(names) - len(without)
        if known:
            basis = (
                f"p{100.0 * QUANTILE:.0f} of 15-min maxima, {when}, "
                f"{self.weeks} past week{'s' if self.weeks > 1 else ''}"
            )
            if without:
                basis += f"; {len(without)} of {len(names)} loads at nameplate or board maximum"
        else:
            basis = "no history of that hour: nameplate, and all that the boards may draw"
        return {
            "basis": basis,
            "weeks": self.weeks,
            "from_history": known,
            "worst_case": without,
            "total_w": float(self.load_w.sum()),
            "loads": {n: float(w) for n, w in zip(names, self.load_w, strict=True)},
        }


def forecast(site: SiteModel, weeks: Mapping[int, Sequence[FloatArray]]) -> Forecast:
    """Fold history into one load each.

    Args:
        site: the site.
        weeks: load index -> one float64[n] per past week: metered power in each bucket, W; NaN
            where a feed was not measured.
    """
    worst_w = worst_case_w(site)
    load_w = worst_w.copy()
    known = [False] * len(load_w)
    most = 0
    accuracy = 1.0 + site.facility.power.meter_accuracy
    for load, past in weeks.items():
        good = [week for week in past if len(week) and float(np.isfinite(week).mean()) >= COVERAGE]
        if not good:
            continue
        values = np.concatenate(good)
        values = values[np.isfinite(values)]
        load_w[load] = float(np.quantile(values, QUANTILE, method="higher")) * accuracy
        known[load] = True
        most = max(most, len(good))
    return Forecast(load_w, tuple(known), most)


def worst_case_w(site: SiteModel) -> FloatArray:
    """float64[L]: nameplate, or more where the boards of a rack may draw more."""
    nameplate = site.topology.nameplate_w
    boards = caps_term_w(site, site.max_cap_w)
    managed = np.zeros(len(nameplate), dtype=np.bool_)
    managed[site.node_rack] = True
    return np.asarray(np.where(managed, np.maximum(nameplate, boards), nameplate))
