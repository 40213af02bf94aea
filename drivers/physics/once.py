"""Every check of one look, for commissioning: what fits is told too."""

from __future__ import annotations

import math
from collections.abc import Mapping

from drivers.physics.finding import known_points, rules_of
from drivers.physics.vocabulary import CheckResult
from drivers.profile.binding import Binding

Readings = Mapping[tuple[str, str], float]


def run_checks(binding: Binding, readings: Readings) -> list[CheckResult]:
    """Every law at every part that has all it needs.

    Args:
        binding: of the device.
        readings: (part, kind) -> value in canonical units; only what may be believed.
    """
    points = known_points(binding)
    values = [math.nan] * len(points)
    for key, point in points.items():
        values[point.place] = readings.get(key, math.nan)
    found = []
    for rule in rules_of(points, binding.profile.unchecked):
        fits = rule.fits(values, values)
        if fits is not None:
            found.append(CheckResult(rule.check, rule.part, fits, rule.words(values)))
    return found
