"""A facility file and its point table joined: where in the vectors each role stands.

Controllers never search for points by name while they decide; they index with these arrays. An
index of -1 means that the site has no such point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from facility.commands import Mode
from facility.config import Facility, Node
from facility.loop_model import LoopGpus, loop_model
from facility.loop_model import LoopModel as LoopModel
from facility.points import FloatArray, IntArray, PointId, PointTable
from facility.topology import Source, Topology


@dataclass(frozen=True)
class SiteModel:
    """Everything that stays the same from cycle to cycle.

    R racks, N nodes, G = most GPUs of a node, F = feed columns of the topology, E = elements.

    Attributes:
        feed_meter: int64[F], `total:active_power` of the device measuring that (rack, feed).
        rack_feeds: per rack, its columns in `topology.feeds`.
        element_meter, element_state: int64[E], power and (for a UPS) output source code.
        node_rack, node_loop: int64[N]; node_loop is -1 for air-cooled nodes.
        gpus: int64[N]; min_cap_w … fallback_w, overhead_w: float64[N] (W per GPU; overhead of
            the node).
        gpu_power … gpu_state: int64[N, G], padded with -1.
        node_cap …: int64[N], the node's totals.
        token_points, token_node: int64[S], counters of generated tokens and the node of each: those
            of the engines that the file says run there, else the agent's own.
        inlet_temperature, rack_leak: per rack, the indexes of its sensors.
        device_points: device -> int64[n], the indexes of all that it measures.
    """

    facility: Facility
    table: PointTable
    topology: Topology
    racks: tuple[str, ...]
    nodes: tuple[str, ...]
    feed_meter: IntArray
    feed_device: tuple[str | None, ...]
    rack_feeds: tuple[IntArray, ...]
    element_meter: IntArray
    element_state: IntArray
    element_device: tuple[str | None, ...]
    node_rack: IntArray
    node_loop: IntArray
    gpus: IntArray
    min_cap_w: FloatArray
    max_cap_w: FloatArray
    floor_w: FloatArray
    fallback_w: FloatArray
    overhead_w: FloatArray
    gpu_power: IntArray
    gpu_temperature: IntArray
    gpu_margin: IntArray
    gpu_enforced: IntArray
    gpu_state: IntArray
    node_cap: IntArray
    node_agent_state: IntArray
    node_generated: IntArray
    token_points: IntArray
    token_node: IntArray
    node_prompt: IntArray
    node_running: IntArray
    node_waiting: IntArray
    cap_points: tuple[PointId, ...]
    loops: tuple[LoopModel, ...]
    inlet_temperature: tuple[IntArray, ...]
    rack_leak: tuple[IntArray, ...]
    ambient: int
    twin_tokens: int
    twin_energy: int
    device_points: Mapping[str, IntArray] = field(repr=False)

    @classmethod
    def of(cls, facility: Facility, table: PointTable) -> SiteModel:
        """Join a checked facility with the points that its devices offer.

        No profile measures on which side a transfer switch stands, so live each one counts as the
        worse of both sides.
        """
        power = facility.power
        sides: dict[str, Source] = {
            name: "unknown" for name, e in power.elements.items() if e.transfer is not None
        }
        topology = Topology.of(power, sides)
        racks = tuple(topology.racks)
        nodes = tuple(facility.nodes)
        configs = [facility.nodes[name] for name in nodes]
        rack_at = {rack: i for i, rack in enumerate(racks)}
        feeds = topology.feeds
        feed_device = _feed_devices(facility, feeds)
        token_points, token_node = _token_points(facility, table, nodes)
        element_device = _element_devices(facility, topology.elements, table)
        loops = tuple(
            loop_model(facility, table, name, loop, rack_at, nodes, configs)
            for name, loop in facility.cooling.loops.items()
        )
        node_loop = np.full(len(nodes), -1, dtype=np.int64)
        for i, model in enumerate(loops):
            node_loop[model.nodes] = i
        most_gpus = max((c.gpus for c in configs), default=0)

        def per_gpu(kind: str) -> IntArray:
            out = np.full((len(nodes), most_gpus), -1, dtype=np.int64)
            for n, (name, config) in enumerate(zip(nodes, configs, strict=True)):
                for g in range(config.gpus):
                    out[n, g] = table.index.get(PointId(name, f"gpu.{g}", kind), -1)
            return out

        def per_node(kind: str) -> IntArray:
            return table.indexes([PointId(name, "total", kind) for name in nodes])

        def numbers(read: Callable[[Node], float]) -> FloatArray:
            return np.array([read(c) for c in configs], dtype=np.float64)

        return cls(
            facility=facility,
            table=table,
            topology=topology,
            racks=racks,
            nodes=nodes,
            feed_meter=_totals(table, feed_device, "active_power"),
            feed_device=feed_device,
            rack_feeds=tuple(
                np.array([i for i, (load, _) in enumerate(feeds) if load == rack], dtype=np.int64)
                for rack in racks
            ),
            element_meter=_totals(table, element_device, "active_power"),
            element_state=_totals(table, element_device, "state"),
            element_device=element_device,
            node_rack=np.array([rack_at[c.rack] for c in configs], dtype=np.int64),
            node_loop=node_loop,
            gpus=np.array([c.gpus for c in configs], dtype=np.int64),
            min_cap_w=numbers(lambda c: c.min_cap),
            max_cap_w=numbers(lambda c: c.max_cap),
            floor_w=numbers(lambda c: c.min_cap if c.floor is None else c.floor),
            fallback_w=numbers(_fallback_w),
            overhead_w=numbers(lambda c: c.overhead),
            gpu_power=per_gpu("active_power"),
            gpu_temperature=per_gpu("temperature"),
            gpu_margin=per_gpu("margin"),
            gpu_enforced=per_gpu("power_cap_enforced"),
            gpu_state=per_gpu("state"),
            node_cap=per_node("power_cap"),
            node_agent_state=per_node("state"),
            node_generated=per_node("tokens_generated"),
            token_points=token_points,
            token_node=token_node,
            node_prompt=per_node("tokens_prompt"),
            node_running=per_node("requests_running"),
            node_waiting=per_node("requests_waiting"),
            cap_points=tuple(PointId(name, "total", "power_cap") for name in nodes),
            loops=loops,
            inlet_temperature=_of_rack(facility, table, racks, "inlet", "temperature"),
            rack_leak=_of_rack(facility, table, racks, "leak", "leak"),
            ambient=_ambient(facility, table),
            twin_tokens=table.index.get(PointId("twin", "total", "tokens_generated"), -1),
            twin_energy=table.index.get(PointId("twin", "total", "energy"), -1),
            device_points=_device_points(table),
        )

    @cached_property
    def node_index(self) -> Mapping[str, int]:
        """Node name -> index."""
        return {name: i for i, name in enumerate(self.nodes)}

    @cached_property
    def rack_index(self) -> Mapping[str, int]:
        """Rack name -> index."""
        return {name: i for i, name in enumerate(self.racks)}

    @cached_property
    def gpu_mask(self) -> FloatArray:
        """float64[N, G]: 1 where the node has that GPU."""
        most = self.gpu_power.shape[1] if self.nodes else 0
        return (np.arange(most)[None, :] < self.gpus[:, None]).astype(np.float64)

    @cached_property
    def cap_index(self) -> Mapping[PointId, int]:
        """Cap point -> node index."""
        return {point: i for i, point in enumerate(self.cap_points)}

    @cached_property
    def setpoint_loop(self) -> Mapping[PointId, int]:
        """Supply set-point -> loop index."""
        return {
            point: i
            for i, loop in enumerate(self.loops)
            for point in loop.setpoint_points
            if point is not None
        }

    @cached_property
    def gpu_type(self) -> IntArray:
        """int64[N]: a number per GPU model."""
        models = [self.facility.nodes[name].gpu for name in self.nodes]
        codes = {model: i for i, model in enumerate(dict.fromkeys(models))}
        return np.array([codes[model] for model in models], dtype=np.int64)

    @cached_property
    def loop_gpus(self) -> Mapping[str, LoopGpus]:
        """Loop -> the GPUs that it cools."""
        found = {}
        for loop in self.loops:
            there = self.gpu_mask[loop.nodes].ravel() > 0.0
            types = np.repeat(self.gpu_type[loop.nodes], self.gpu_power.shape[1])
            found[loop.name] = LoopGpus(
                there=there,
                power=self.gpu_power[loop.nodes].ravel(),
                margin=self.gpu_margin[loop.nodes].ravel(),
                temperature=self.gpu_temperature[loop.nodes],
                alike=tuple(there & (types == kind) for kind in np.unique(types).tolist()),
            )
        return found

    @cached_property
    def loop_leaks(self) -> Mapping[str, tuple[IntArray, IntArray]]:
        """Loop -> the leak sensors of its racks, rack by rack, and the rack of each."""
        found = {}
        for loop in self.loops:
            each = [self.rack_leak[int(rack)] for rack in loop.racks]
            sensors = np.concatenate([np.zeros(0, dtype=np.int64), *each])
            found[loop.name] = (sensors, np.repeat(loop.racks, [len(s) for s in each]))
        return found

    @cached_property
    def rack_inlets(self) -> IntArray:
        """int64[R, S]: inlet temperature sensors of each rack, padded with -1."""
        most = max((len(sensors) for sensors in self.inlet_temperature), default=0)
        out = np.full((len(self.racks), most), -1, dtype=np.int64)
        for i, sensors in enumerate(self.inlet_temperature):
            out[i, : len(sensors)] = sensors
        return out

    @cached_property
    def scoped_rack(self) -> Mapping[str, int]:
        """Scope of a rack -> its index."""
        return {f"rack:{rack}": i for i, rack in enumerate(self.racks)}

    def cap_activity(self, modes: Mapping[str, Mode]) -> IntArray:
        """int64[N]: `Mode.activity` of the mode in force for each node's cap; see `mode_of`."""
        hall = modes.get("hall", Mode.OBSERVE).activity
        own = [scope for scope in modes if scope in self.scoped_rack]
        if not own:
            return np.full(len(self.nodes), hall, dtype=np.int64)
        of_rack = np.full(len(self.racks), hall, dtype=np.int64)
        for scope in own:
            of_rack[self.scoped_rack[scope]] = modes[scope].activity
        return of_rack[self.node_rack]

    def scopes_of(self, point: PointId) -> tuple[str, ...]:
        """Scopes that govern a point, narrowest first."""
        node = self.cap_index.get(point)
        if node is not None:
            return (f"rack:{self.racks[int(self.node_rack[node])]}", "hall")
        loop = self.setpoint_loop.get(point)
        if loop is not None:
            return (f"loop:{self.loops[loop].name}", "hall")
        return ("hall",)

    def mode_of(self, point: PointId, modes: Mapping[str, Mode]) -> Mode:
        """The mode in force for a point: the narrowest scope that has one, else observe."""
        for scope in self.scopes_of(point):
            if scope in modes:
                return modes[scope]
        return Mode.OBSERVE


def _fallback_w(config: Node) -> float:
    if config.fallback is not None:
        return config.fallback
    return config.min_cap if config.floor is None else config.floor


def _feed_devices(facility: Facility, feeds: Iterable[tuple[str, str]]) -> tuple[str | None, ...]:
    by_feed: dict[tuple[str, str], str] = {}
    for name, device in facility.devices.items():
        about = device.measures
        load = about.rack or about.load
        if load is not None and about.feed is not None:
            by_feed.setdefault((load, about.feed), name)
    return tuple(by_feed.get(feed) for feed in feeds)


def _element_devices(
    facility: Facility, elements: Iterable[str], table: PointTable
) -> tuple[str | None, ...]:
    by_element: dict[str, str] = {}
    for name, device in facility.devices.items():
        element = device.measures.element
        if element is not None and PointId(name, "total", "active_power") in table.index:
            by_element.setdefault(element, name)
    return tuple(by_element.get(element) for element in elements)


def _token_points(
    facility: Facility, table: PointTable, nodes: tuple[str, ...]
) -> tuple[IntArray, IntArray]:
    """Counters of generated tokens, and whose they are; an engine counts for the agent, not too."""
    engines: dict[str, list[int]] = {}
    for name, device in facility.devices.items():
        index = table.index.get(PointId(name, "total", "tokens_generated"), -1)
        if device.measures.node is not None and index >= 0:
            engines.setdefault(device.measures.node, []).append(index)
    points: list[int] = []
    owners: list[int] = []
    for n, node in enumerate(nodes):
        own = table.index.get(PointId(node, "total", "tokens_generated"), -1)
        mine = engines.get(node, [own])
        points += mine
        owners += [n] * len(mine)
    return np.array(points, dtype=np.int64), np.array(owners, dtype=np.int64)


def _totals(table: PointTable, devices: Iterable[str | None], kind: str) -> IntArray:
    return np.array(
        [-1 if d is None else table.index.get(PointId(d, "total", kind), -1) for d in devices],
        dtype=np.int64,
    )


def _of_rack(
    facility: Facility, table: PointTable, racks: tuple[str, ...], part: str, kind: str
) -> tuple[IntArray, ...]:
    found: dict[str, list[int]] = {rack: [] for rack in racks}
    for name, device in facility.devices.items():
        index = table.index.get(PointId(name, part, kind), -1)
        if device.measures.rack in found and index >= 0:
            found[device.measures.rack].append(index)
    return tuple(np.array(found[rack], dtype=np.int64) for rack in racks)


def _ambient(facility: Facility, table: PointTable) -> int:
    stated = facility.controllers.cooling.ambient
    if stated is not None:
        return table.index.get(PointId.parse(stated), -1)
    for point, index in table.index.items():
        if point.part == "outdoor" and point.kind == "temperature":
            return index
    return -1


def _device_points(table: PointTable) -> dict[str, IntArray]:
    found: dict[str, list[int]] = {}
    for layout in table.layouts:
        start = table.offsets[layout.key]
        found.setdefault(layout.device, []).extend(range(start, start + len(layout)))
    return {device: np.array(indexes, dtype=np.int64) for device, indexes in found.items()}
