"""A hall of 20,000 points that never was, second by second: `hall.csv` says what they are.

Each line of the table is `devices` devices with `parts` points of one kind each. A gauge is a mean
of its own, a slow walk and white noise, rounded to the resolution of the instrument, which is how
drivers make values too: a whole number times the resolution. A counter adds its noisy rate each
second, in Wh. A state changes with a chance of `walk` a second. The scans of a device come every
second, with 5 ms of jitter.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from facility.points import FloatArray, IntArray, Layout, PointId, PointSpec, Scan

START_MS = 1_796_000_400_000  # a whole hour
JITTER_MS = 5.0
_TABLE = Path(__file__).with_name("hall.csv")


@dataclass(frozen=True)
class _Line:
    device: str
    devices: int
    part: str
    parts: int
    kind: str
    form: str
    mean: float
    resolution: float
    noise: float
    walk: float
    low: float
    high: float

    @classmethod
    def of(cls, row: dict[str, str]) -> _Line:
        numbers = {name: float(row[name]) for name in list(row)[6:]}
        whole = {name: int(row[name]) for name in ("devices", "parts")}
        text = {name: row[name] for name in ("device", "part", "kind", "form")}
        return cls(**text, **whole, **numbers)


class Hall:
    """The points, and their values a stretch of seconds after the other.

    Args:
        seed: of everything that is drawn.
        start_ms: of the first second.
        only: devices of one kind alone.
        devices: so many of each kind, and not as many as the table says.

    Attributes:
        layouts: one per device.
        points: how many in all.
        constants: how many of them never change.
    """

    def __init__(
        self,
        seed: int,
        start_ms: int = START_MS,
        only: str | None = None,
        devices: int | None = None,
    ) -> None:
        with _TABLE.open(newline="") as stream:
            lines = [_Line.of(row) for row in csv.DictReader(stream)]
        self._rng = np.random.default_rng(seed)
        names = [n for n in dict.fromkeys(line.device for line in lines) if only in (None, n)]
        self.layouts: list[Layout] = []
        self._lines: list[_Line] = []
        for name in names:
            mine = [line for line in lines if line.device == name]
            for number in range(devices or mine[0].devices):
                device = f"{name}-{number:03d}"
                points = []
                for line in mine:
                    for part in range(line.parts):
                        points.append(
                            PointSpec(PointId(device, line.part.format(part), line.kind), 0.0, 1e12)
                        )
                        self._lines.append(line)
                self.layouts.append(Layout(device, "fast", tuple(points)))
        self.points = len(self._lines)
        self.constants = sum(line.form == "constant" for line in self._lines)
        self._next_ms = start_ms
        column = {
            name: np.array([getattr(line, name) for line in self._lines])
            for name in ("mean", "resolution", "noise", "walk", "low", "high")
        }
        self._c: dict[str, FloatArray] = column
        forms = np.array([line.form for line in self._lines])
        self._is = {form: forms == form for form in ("gauge", "counter", "state", "constant")}
        spread = self._rng.uniform(0.9, 1.1, self.points)
        near = column["mean"] * spread
        self._level: FloatArray = np.where(
            self._is["gauge"],
            np.clip(near, column["low"], column["high"]),
            np.where(
                self._is["counter"], 1e5 * self._rng.uniform(1, 50, self.points), column["mean"]
            ),
        )

    def stretch(self, seconds: int) -> tuple[IntArray, FloatArray]:
        """int64[devices, seconds] times and float64[points, seconds] values of what comes next."""
        rng, c, gauge = self._rng, self._c, self._is["gauge"]
        shape = (self.points, seconds)
        made = np.empty(shape)
        made[self._is["constant"]] = self._level[self._is["constant"], None]
        walk = self._level[gauge, None] + np.cumsum(
            rng.standard_normal((int(gauge.sum()), seconds), dtype=np.float32)
            * c["walk"][gauge, None],
            axis=1,
        )
        low, high = c["low"][gauge, None], c["high"][gauge, None]
        np.clip(walk, low, high, out=walk)
        self._level[gauge] = walk[:, -1]
        noise = rng.standard_normal(walk.shape, dtype=np.float32) * c["noise"][gauge, None]
        made[gauge] = np.clip(walk + noise, low, high)
        counter = self._is["counter"]
        rate = c["mean"][counter, None] + c["noise"][counter, None] * rng.standard_normal(
            (int(counter.sum()), seconds), dtype=np.float32
        )
        made[counter] = self._level[counter, None] + np.cumsum(rate / 3600.0, axis=1)
        self._level[counter] = made[counter][:, -1]
        state = self._is["state"]
        jumps = rng.random((int(state.sum()), seconds)) < c["walk"][state, None]
        made[state] = np.mod(
            self._level[state, None] + np.cumsum(jumps, axis=1), c["high"][state, None] + 1
        )
        self._level[state] = made[state][:, -1]
        resolution = c["resolution"][:, None]
        values = np.rint(made / resolution) * resolution
        at = self._next_ms + 1000 * np.arange(seconds)
        jitter = np.rint(rng.standard_normal((len(self.layouts), seconds)) * JITTER_MS)
        # Sorted, and never before its second: nothing here comes late or twice.
        times = at + np.clip(jitter, -499, 499).astype(np.int64) + 500
        self._next_ms += 1000 * seconds
        return times, values


def scans_of(layouts: list[Layout], times: IntArray, values: FloatArray) -> Iterator[list[Scan]]:
    """The scans of each second of a stretch."""
    bounds = np.cumsum([0, *map(len, layouts)])
    good = [np.zeros(len(layout), dtype=np.uint8) for layout in layouts]
    by_second: npt.NDArray[np.float64] = np.ascontiguousarray(values.T)
    for second, row in enumerate(by_second):
        at = times[:, second].tolist()
        yield [
            Scan(layout, row[bounds[i] : bounds[i + 1]], good[i], at[i], at[i], at[i] / 1000.0)
            for i, layout in enumerate(layouts)
        ]
