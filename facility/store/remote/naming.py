"""What a point is called in Prometheus: one prefix, base units, sorted labels.

Names follow Prometheus' own practices: `wattkeeper_` + kind + base unit, `_total` for counters.
Units that are no base unit are converted: Wh to joules, L/min to cubic metres per second, kPa to
pascals, rpm to hertz. Shares (`1`) of natures that run from 0 to 1 end in `_ratio`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from facility.kinds import KINDS, Kind, Nature
from facility.points import PointId

PREFIX: Final = "wattkeeper"

#: unit as `facility.kinds` prints it -> (suffix, factor from it to the base unit).
_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "W": ("_watts", 1.0),
    "VA": ("_voltamperes", 1.0),
    "var": ("_vars", 1.0),
    "Wh": ("_joules", 3600.0),
    "A": ("_amperes", 1.0),
    "V": ("_volts", 1.0),
    "Hz": ("_hertz", 1.0),
    "degC": ("_celsius", 1.0),
    "K": ("_kelvin", 1.0),
    "L/min": ("_cubic_meters_per_second", 1.0 / 60_000.0),
    "kPa": ("_pascals", 1000.0),
    "rpm": ("_hertz", 1.0 / 60.0),
    "s": ("_seconds", 1.0),
    "1": ("", 1.0),
    "bool": ("", 1.0),
    "code": ("", 1.0),
    "tok": ("", 1.0),
}


def metric(kind: Kind) -> tuple[str, float]:
    """The metric's name, and the factor from the kind's unit to the metric's."""
    suffix, factor = _UNITS[kind.unit]
    if not suffix and kind.unit == "1" and kind.quantity == "ratio":
        suffix = "_ratio"
    total = "_total" if kind.nature is Nature.COUNTER else ""
    return f"{PREFIX}_{kind.name}{suffix}{total}", factor


@dataclass(frozen=True)
class Naming:
    """The labels of series.

    Attributes:
        labels: on every series.
        of_device: device -> its own labels (rack, element, …).
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    of_device: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def series(self, point: PointId) -> tuple[tuple[tuple[str, str], ...], float]:
        """Sorted (name, value) pairs, and the factor to the metric's unit.

        A label without a value is left out: to Prometheus they are the same.
        """
        name, factor = metric(KINDS[point.kind])
        labels = {
            **self.labels,
            **self.of_device.get(point.device, {}),
            "device": point.device,
            "part": point.part,
            "kind": point.kind,
            "__name__": name,
        }
        return tuple(sorted((k, v) for k, v in labels.items() if v)), factor
