"""Scenarios: YAML files beside this one, and what their faults mean in a given facility.

A file says what breaks by kind ("the PDU called pdu-b, else the last one"), so that the same
scenario runs on any facility file. Shares are of the run's duration; without a duration a
scenario repeats every 180 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from facility.config import Facility

REPEAT_S: Final = 180.0

#: What breaks in the plant, in an instrument, in a program.
PLANT_FAULTS: Final = frozenset(
    {"element_lost", "pump_lost", "cdu_lost", "valve_stuck", "leak", "hot_weather"}
)
SENSOR_FAULTS: Final = frozenset(
    {"sensor_frozen", "sensor_nan", "sensor_offset", "sensor_unit_swapped"}
)
DEVICE_FAULTS: Final = frozenset(
    {"device_dead", "device_slow", "device_flapping", "device_garbage"}
)
PROGRAM_FAULTS: Final = frozenset(
    {"agent_killed", "broker_stopped", "controller_killed", "clock_stepped", "database_gone"}
)

FaultKind = Literal[
    "element_lost", "pump_lost", "cdu_lost", "valve_stuck", "leak", "hot_weather",
    "sensor_frozen", "sensor_nan", "sensor_offset", "sensor_unit_swapped",
    "device_dead", "device_slow", "device_flapping", "device_garbage",
    "agent_killed", "broker_stopped", "controller_killed", "clock_stepped", "database_gone",
]  # fmt: skip


class FaultEntry(BaseModel):
    """One line of a scenario file.

    Attributes:
        kind: what breaks.
        of: kinds of element to choose from, most wanted first (element_lost).
        named: the one to take if the facility has it.
        index: which one otherwise; -1 is the last.
        count: how many from there (racks, nodes, devices).
        pumps: numbers of the pumps that stop (pump_lost).
        points: `part:kind` of the sensors concerned (sensor faults).
        value: size of the fault: K, s or the unit of the point.
        dew_point: rise of the outdoor dew point (hot_weather), K.
        start, end: shares of the run.
        ramp: share of the run over which the fault comes and goes (hot_weather).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind
    of: tuple[str, ...] = ()
    named: str | None = None
    index: int = 0
    count: int = Field(default=1, ge=1)
    pumps: tuple[int, ...] = (1,)
    points: tuple[str, ...] = ()
    value: float = 0.0
    dew_point: float = 0.0
    start: float = Field(default=1.0 / 3.0, ge=0.0, le=1.0)
    end: float = Field(default=2.0 / 3.0, ge=0.0, le=1.0)
    ramp: float = Field(default=0.0, ge=0.0, le=0.5)


class Scenario(BaseModel):
    """One scenario file.

    Attributes:
        name: of the file.
        about: one sentence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    about: str
    faults: tuple[FaultEntry, ...] = ()


@dataclass(frozen=True)
class Fault:
    """An entry with its targets found in a facility: elements, CDUs, racks, nodes or devices."""

    entry: FaultEntry
    targets: tuple[str, ...]


def names() -> tuple[str, ...]:
    """All scenarios, sorted."""
    folder = resources.files(__name__)
    files = (entry.name for entry in folder.iterdir())
    return tuple(sorted(f.removesuffix(".yaml") for f in files if f.endswith(".yaml")))


def load(name: str) -> Scenario:
    """Read a scenario by name, or from a file of one's own (`NAME.yaml`).

    Raises:
        KeyError: no such scenario; the message lists those there are.
        ValueError: the file is none of a scenario; the message says what is wrong with it.
        OSError: the file cannot be read.
    """
    if name.endswith(".yaml"):
        return parse(Path(name).read_text(encoding="utf-8"), Path(name).stem)
    if name not in names():
        raise KeyError(f"no scenario {name!r}; there are: {', '.join(names())}")
    text = (resources.files(__name__) / f"{name}.yaml").read_text(encoding="utf-8")
    return parse(text, name)


def parse(text: str, name: str) -> Scenario:
    """Read the text of a scenario file.

    Raises:
        ValueError: it is none; the message names the place.
    """
    try:
        found: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: a scenario has the keys about and faults")
    try:
        return Scenario.model_validate({**found, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{name}: {place}: {first['msg']}") from None


def resolve(scenario: Scenario, facility: Facility) -> tuple[Fault, ...]:
    """Find what each fault hits; a fault that finds nothing in this facility is left out."""
    found = (Fault(entry, tuple(_targets(entry, facility))) for entry in scenario.faults)
    untargeted = {"hot_weather", "broker_stopped", "controller_killed"}
    untargeted |= {"clock_stepped", "database_gone"}
    return tuple(f for f in found if f.targets or f.entry.kind in untargeted)


def _targets(entry: FaultEntry, facility: Facility) -> Iterator[str]:
    match entry.kind:
        case "element_lost":
            yield from _elements(entry, facility)
        case "pump_lost" | "cdu_lost" | "valve_stuck":
            cdus = [cdu for loop in facility.cooling.loops.values() for cdu in loop.cdus]
            yield from _choose(entry, cdus)
        case "leak":
            cooled = [rack for loop in facility.cooling.loops.values() for rack in loop.racks]
            yield from _choose(entry, cooled)
        case "agent_killed":
            yield from _choose(entry, list(facility.nodes))
        case kind if kind in SENSOR_FAULTS | DEVICE_FAULTS:
            yield from _devices(entry, facility)


def _choose(entry: FaultEntry, candidates: list[str]) -> list[str]:
    if entry.named is not None and entry.named in candidates:
        return [entry.named]
    if not -len(candidates) <= entry.index < len(candidates):
        return []
    first = entry.index % len(candidates)
    return candidates[first : first + entry.count]


def _elements(entry: FaultEntry, facility: Facility) -> list[str]:
    elements = facility.power.elements
    if entry.named is not None and entry.named in elements:
        return [entry.named]
    for kind in entry.of:
        found = [name for name, element in elements.items() if element.kind == kind]
        if found:
            return _choose(entry, found)
    return []


def _devices(entry: FaultEntry, facility: Facility) -> list[str]:
    """Devices by what they are: `rack_meter` counts racks, the rest counts devices."""
    if entry.named is not None and entry.named in facility.devices:
        return [entry.named]
    wanted = entry.of[0] if entry.of else "any"
    if wanted == "rack_meter":
        racks = _choose(entry, list(facility.power.racks))
        return [
            name
            for name, device in facility.devices.items()
            if device.measures.rack in racks and device.measures.feed is not None
        ]
    cdus = {cdu for loop in facility.cooling.loops.values() for cdu in loop.cdus}
    matching = [
        name
        for name, device in facility.devices.items()
        if wanted == "any"
        or (wanted == "cdu" and name in cdus)
        or (wanted == "inlet" and device.measures.rack and device.measures.feed is None)
        or (wanted == "ups" and device.profile.startswith("ups/"))
    ]
    return _choose(entry, matching)
