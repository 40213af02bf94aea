"""One liquid loop joined with the point table: where each of its instruments stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from facility.config import Facility, Loop, Node
from facility.points import FloatArray, IntArray, PointId, PointTable

_PUMP: Final = re.compile(r"^pump\.(\d+)$")


@dataclass(frozen=True)
class LoopModel:
    """One liquid loop.

    Attributes:
        cdus: device names; C of them, in file order. Arrays [C] follow it.
        pump_state, pump_rotation: int64[C, P], padded with -1.
        dew_temperature, dew_humidity: int64[S], the air that could condense on the loop.
        racks: int64[K], indexes into `SiteModel.racks`; `shares`: float64[K], part of each
            rack's heat that reaches the liquid.
        nodes: int64[M], indexes into `SiteModel.nodes`.
        setpoint_points: the writable points, None for a CDU that cannot be written.
    """

    name: str
    config: Loop
    cdus: tuple[str, ...]
    supply: IntArray
    returned: IntArray
    flow: IntArray
    pressure: IntArray
    setpoint: IntArray
    setpoint_points: tuple[PointId | None, ...]
    primary_supply: IntArray
    leak: IntArray
    level: IntArray
    pump_state: IntArray
    pump_rotation: IntArray
    dew_temperature: IntArray
    dew_humidity: IntArray
    racks: IntArray
    shares: FloatArray
    nodes: IntArray


@dataclass(frozen=True)
class LoopGpus:
    """The GPUs of one loop; G' = its nodes × the most GPUs of a node.

    Attributes:
        there: bool[G'], whether the node has that GPU.
        power, margin: int64[G'], points; -1: none. temperature: int64[M, G], the same by node.
        alike: bool[G'] for each model: the GPUs of it.
    """

    there: npt.NDArray[np.bool_]
    power: IntArray
    margin: IntArray
    temperature: IntArray
    alike: tuple[npt.NDArray[np.bool_], ...]


def loop_model(
    facility: Facility,
    table: PointTable,
    name: str,
    loop: Loop,
    rack_at: Mapping[str, int],
    nodes: tuple[str, ...],
    configs: list[Node],
) -> LoopModel:
    """Where everything of a loop stands.

    Args:
        facility: the file.
        table: of all points.
        name: of the loop.
        loop: as configured.
        rack_at: rack -> index.
        nodes: names.
        configs: their entries, in the same order.
    """
    cdus = tuple(loop.cdus)

    def at(part: str, kind: str) -> IntArray:
        return table.indexes([PointId(cdu, part, kind) for cdu in cdus])

    pumps = sorted({p.part for p in table.index if p.device in cdus and _PUMP.match(p.part)})
    writable = [PointId(cdu, "loop.secondary", "supply_setpoint") for cdu in cdus]
    setpoint = table.indexes(writable)
    sensors = list(loop.sensors) or [
        device for device, config in facility.devices.items() if config.measures.rack in loop.racks
    ]
    dew = [(s, part) for s in (*sensors, *cdus) for part in ("inlet", "room", "total")]
    pairs = [
        (
            table.index.get(PointId(s, p, "temperature"), -1),
            table.index.get(PointId(s, p, "humidity"), -1),
        )
        for s, p in dew
    ]
    pairs = [pair for pair in pairs if min(pair) >= 0]
    members = [i for i, c in enumerate(configs) if c.rack in loop.racks]
    return LoopModel(
        name=name,
        config=loop,
        cdus=cdus,
        supply=at("loop.secondary", "supply_temperature"),
        returned=at("loop.secondary", "return_temperature"),
        flow=at("loop.secondary", "flow"),
        pressure=at("loop.secondary", "pressure_difference"),
        setpoint=setpoint,
        setpoint_points=tuple(
            p if i >= 0 and table.specs[int(i)].writable else None
            for p, i in zip(writable, setpoint, strict=True)
        ),
        primary_supply=at("loop.primary", "supply_temperature"),
        leak=at("total", "leak"),
        level=at("total", "level"),
        pump_state=np.stack([at(p, "state") for p in pumps], axis=1)
        if pumps
        else np.zeros((len(cdus), 0), dtype=np.int64),
        pump_rotation=np.stack([at(p, "rotation") for p in pumps], axis=1)
        if pumps
        else np.zeros((len(cdus), 0), dtype=np.int64),
        dew_temperature=np.array([a for a, _ in pairs], dtype=np.int64),
        dew_humidity=np.array([b for _, b in pairs], dtype=np.int64),
        racks=np.array([rack_at[r] for r in loop.racks if r in rack_at], dtype=np.int64),
        shares=np.array([s for r, s in loop.racks.items() if r in rack_at], dtype=np.float64),
        nodes=np.array(members, dtype=np.int64),
    )
