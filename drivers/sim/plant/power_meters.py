"""Electrical instruments: rack PDUs on their feeds, UPSs, and meters of elements and loads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from drivers.sim.plant.plant import Plant
from facility.config import DeviceConfig

_SQRT3: Final = math.sqrt(3.0)
#: Shares of the three phases where the load does not state its own.
_PHASES: Final = (0.34, 0.33, 0.33)
#: upsOutputSource of RFC 1628.
_SOURCE_NONE, _SOURCE_NORMAL, _SOURCE_BATTERY = 2.0, 3.0, 5.0


class PowerMeters:
    """Readings of everything that measures electricity."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        network = plant.hall.network
        self._element = {name: i for i, name in enumerate(network.elements)}
        self._load = {name: i for i, name in enumerate(network.loads)}
        self._column = {(row, feed): i for i, (row, feed, _) in enumerate(network.columns)}
        self._devices = {
            name: device
            for name, device in plant.hall.facility.devices.items()
            if self._measures_power(device)
        }
        power = plant.hall.facility.power
        self._phases = {
            row: load.phases
            for row, load in enumerate([*power.racks.values(), *power.loads.values()])
        }

    @staticmethod
    def _measures_power(device: DeviceConfig) -> bool:
        about = device.measures
        return (
            about.element is not None
            or about.load is not None
            or (about.rack is not None and about.feed is not None)
        )

    def knows(self, device: str) -> bool:
        """Whether a device measures electricity."""
        return device in self._devices

    def energised(self, device: str) -> bool:
        """Whether its own electronics have power.

        A rack PDU lives on the feed that it measures; a UPS feeds itself; other meters are
        taken to have a supply of their own.
        """
        about = self._devices[device].measures
        if about.rack is None or about.feed is None:
            return True
        column = self._column.get((self._load[about.rack], about.feed))
        return column is not None and self._feed_live(column)

    def _feed_live(self, column: int) -> bool:
        """Whether there is voltage on a feed."""
        _, _, parent = self._plant.hall.network.columns[column]
        power = self._plant.hall.facility.power
        group = power.groups.get(parent)
        dead = self._plant.flow.dead
        if group is None:
            return not bool(dead[self._element[parent]])
        living = sum(not dead[self._element[m]] for m in group.members if m in self._element)
        return living >= (group.needs if group.needs is not None else len(group.members))

    def reader(self, device: str) -> Callable[[str, str], float | None]:
        """The readings of one device by part and kind."""
        about = self._devices[device].measures
        if about.element is not None:
            element = self._element[about.element]
            kind = self._plant.hall.facility.power.elements[about.element].kind
            return lambda part, what: self._of_element(element, kind == "ups", part, what)
        if about.load is not None and about.feed is None:
            row = self._load[about.load]
            return lambda part, what: self._electric(
                float(self._plant.load_w[row]),
                float(self._plant.energy_wh[self._rows(row)].sum()),
                live=not bool(self._plant.flow.dark[row]),
                phases=_PHASES,
                part=part,
                kind=what,
            )
        row = self._load[about.rack or about.load or ""]
        feed = about.feed or ""
        column = self._column[(row, feed)]
        phases = self._phases_of(row, feed)
        return lambda part, what: self._electric(
            float(self._plant.flow.shares[column] * self._plant.load_w[row]),
            float(self._plant.energy_wh[column]),
            live=self._feed_live(column),
            phases=phases,
            part=part,
            kind=what,
        )

    def _rows(self, row: int) -> list[int]:
        return [i for (r, _), i in self._column.items() if r == row]

    def _phases_of(self, row: int, feed: str) -> tuple[float, float, float]:
        stated = self._phases[row]
        if stated is None or feed not in stated:
            return _PHASES
        shares = stated[feed]
        return (shares.get("L1", 0.0), shares.get("L2", 0.0), shares.get("L3", 0.0))

    def _electric(
        self,
        watts: float,
        energy_wh: float,
        *,
        live: bool,
        phases: tuple[float, float, float],
        part: str,
        kind: str,
    ) -> float | None:
        """A three-phase meter: totals, phases (`phase.N`) and lines (`line.N-M`)."""
        data = self._plant.hall.data.electrical
        volts = data.line_voltage_v if live else 0.0
        head, _, number = part.partition(".")
        share = 1.0
        if head in ("phase", "branch", "outlet") and number.isdigit():
            if not 1 <= int(number) <= 3:
                return None
            share = phases[int(number) - 1]
        watts *= share
        amperes = watts / (volts * data.power_factor) if volts > 0.0 else 0.0
        whole = head in ("total", "inlet")
        values = {
            "active_power": watts,
            "apparent_power": watts / data.power_factor,
            "reactive_power": watts * math.tan(math.acos(data.power_factor)),
            "power_factor": data.power_factor,
            "energy": energy_wh * share,
            # A three-phase total shows the mean of the phase currents.
            "current": amperes / 3.0 if whole else amperes,
            "voltage": volts * (_SQRT3 if head == "line" else 1.0),
            "frequency": 50.0 if live else 0.0,
        }
        return values.get(kind)

    def _of_element(self, element: int, ups: bool, part: str, kind: str) -> float | None:
        plant = self._plant
        watts = float(plant.element_w[element])
        dead = bool(plant.flow.dead[element])
        if not ups:
            row = plant.flow.weights[element]
            return (
                self._electric(
                    watts,
                    float(np.nan),
                    live=not dead and bool(row.size),
                    phases=_PHASES,
                    part=part,
                    kind=kind,
                )
                if kind != "energy"
                else None
            )
        unfed = bool(plant.flow.unfed[element])
        rating = float(plant.hall.network.rating_w[element])
        load = watts / rating if math.isfinite(rating) and rating > 0.0 else 0.0
        charge = float(plant.battery[element])
        head, _, _ = part.partition(".")
        if head == "battery":
            autonomy = float(plant.hall.autonomy_s[element])
            runtime = charge * autonomy / max(load, 0.05) if math.isfinite(autonomy) else None
            volts = 400.0 + 40.0 * charge
            values = {"charge": charge, "runtime": runtime, "voltage": volts, "temperature": 25.0}
            return values.get(kind)
        if head == "input":
            live = not unfed and not dead
            return {
                "voltage": plant.hall.data.electrical.line_voltage_v if live else 0.0,
                "frequency": 50.0 if live else 0.0,
                "active_power": watts / 3.0 if live else 0.0,
            }.get(kind)
        if kind == "state":
            return _SOURCE_NONE if dead else _SOURCE_BATTERY if unfed else _SOURCE_NORMAL
        if kind == "load":
            return load
        if kind == "energy":
            return None
        of_line = part.replace("output.", "phase.")
        return self._electric(watts, 0.0, live=not dead, phases=_PHASES, part=of_line, kind=kind)
