"""A plant of columns: every value of the hall wanders, and what is due is scanned."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from facility.commands import Ack, Command, Outcome
from facility.points import Flaw, FloatArray, IntArray, Layout, Scan
from facility.site import SiteModel
from facility.snapshot import LiveImage
from facility.topology import Topology

EPOCH_MS = 1_790_000_000_000
#: A slow poll class is due once in so many cycles.
SLOW_CYCLES = 10
#: Readings that stand for a kind of which the controllers read nothing special.
USUAL = {
    "voltage": 230.0, "humidity": 0.4, "temperature": 24.0, "power_factor": 0.97, "state": 1.0,
    "rotation": 2000.0, "speed": 0.6, "level": 0.8, "clock": 1.7e9, "frequency": 50.0,
    "pressure_difference": 100.0, "supply_temperature": 15.0, "return_temperature": 24.0,
    "charge": 1.0, "load": 0.5, "requests_running": 40.0, "energy": 1e6, "current": 10.0,
}  # fmt: skip
OUTPUT_NORMAL, OUTPUT_NONE = 3.0, 2.0


class Feed:
    """The plant and its instruments; one step is one second.

    Attributes:
        silent: devices that say nothing at all from now on.
        lost: elements that are dead; the loads move to what is left.
    """

    def __init__(self, site: SiteModel, seed: int) -> None:
        """Start with every cap at its fallback."""
        self.site, self.image = site, LiveImage(site.table)
        self.now_s, self.rng = 1000.0, np.random.default_rng(seed)
        self.silent: set[str] = set()
        self.lost: tuple[str, ...] = ()
        self.cap_w: FloatArray = site.fallback_w.copy()
        self.setpoint_c = np.full(len(site.loops), 30.0)
        self._topology: Topology = site.topology
        self._share = self.rng.uniform(0.7, 0.95, site.gpu_power.shape)
        self._tokens = np.zeros(len(site.nodes))
        self._cycle = 0
        layouts, n = site.table.layouts, len(site.table)
        self._values = np.array([USUAL.get(spec.id.kind, 0.0) for spec in site.table.specs])
        self._good = np.zeros(n, dtype=np.uint8)
        self._wanders = np.flatnonzero(np.isin(self._values, (0.0, 1.0), invert=True))
        self._spans: list[tuple[Layout, int, int]] = []
        at = 0
        for layout in layouts:
            self._spans.append((layout, at, at + len(layout)))
            at += len(layout)

    @property
    def now_ms(self) -> int:
        """UTC ms of the moment."""
        return EPOCH_MS + round(self.now_s * 1000.0)

    def scan(self, broken: Collection[str] = ()) -> int:
        """Look at everything that is due; how many scans that were.

        Args:
            broken: devices that do not answer this time.
        """
        self._measure()
        values, good, count = self._values.copy(), self._good, 0
        for i, (layout, start, stop) in enumerate(self._spans):
            if layout.device in self.silent:
                continue
            if layout.poll_class == "slow" and self._cycle and (self._cycle + i) % SLOW_CYCLES:
                continue
            if layout.device in broken:
                scan = Scan.missing(layout, Flaw.TIMEOUT, self.now_ms, self.now_s)
            else:
                scan = Scan(
                    layout,
                    values[start:stop],
                    good[start:stop],
                    self.now_ms,
                    self.now_ms,
                    self.now_s,
                )
            self.image.update(scan)
            count += 1
        return count

    def advance(self) -> None:
        """One second later."""
        self._cycle += 1
        self.now_s += 1.0
        self._share = np.clip(
            self._share + self.rng.normal(0.0, 0.01, self._share.shape), 0.6, 0.97
        )
        self._tokens += 900.0 * self.site.gpus

    def lose(self, *elements: str) -> None:
        """These elements die."""
        self.lost = elements
        self._topology = self.site.topology.without(elements)

    def apply(self, commands: Sequence[Command]) -> tuple[Ack, ...]:
        """Every command is taken, except by who is silent."""
        acks = []
        for command in commands:
            device = command.point.device
            if device in self.silent:
                acks.append(Ack(command, Outcome.UNANSWERED, None, "timeout", self.now_ms))
                continue
            node = self.site.cap_index.get(command.point)
            if node is not None:
                self.cap_w[node] = command.value
            else:
                self.setpoint_c[self.site.setpoint_loop[command.point]] = command.value
            acks.append(Ack(command, Outcome.APPLIED, command.value, "", self.now_ms))
        return tuple(acks)

    def _put(self, at: IntArray, values: FloatArray | float) -> None:
        where = at >= 0
        self._values[at[where]] = np.broadcast_to(values, at.shape)[where]

    def _measure(self) -> None:
        """Fill in all that the controllers read; the rest wanders."""
        site, values = self.site, self._values
        wander = 1.0 + 1e-4 * self.rng.standard_normal(len(self._wanders), dtype=np.float32)
        values[self._wanders] *= wander
        gpu_w = self._share * self.cap_w[:, None] * site.gpu_mask
        supply_c = np.append(self.setpoint_c, 25.0)[site.node_loop]
        warm_k = 0.030 * gpu_w
        self._put(site.gpu_power, gpu_w)
        self._put(site.gpu_temperature, supply_c[:, None] + warm_k)
        self._put(site.gpu_margin, 95.0 - supply_c[:, None] - warm_k)
        self._put(site.gpu_enforced, np.broadcast_to(self.cap_w[:, None], gpu_w.shape))
        self._put(site.gpu_state, 0.0)
        self._put(site.node_cap, self.cap_w)
        self._put(site.node_agent_state, 1.0)
        self._put(site.node_generated, self._tokens)
        self._put(site.node_prompt, 3.0 * self._tokens)
        node_w = site.overhead_w + gpu_w.sum(axis=1) / 0.96
        load_w = 0.8 * site.topology.nameplate_w
        racks = len(site.racks)
        load_w[:racks] = 1800.0 + np.bincount(site.node_rack, node_w, racks)
        feed_w, element_w = self._flows(load_w)
        self._put(site.feed_meter, feed_w)
        self._put(site.element_meter, element_w)
        dead = self._topology.compiled.dead[0]
        self._put(site.element_state, np.where(dead, OUTPUT_NONE, OUTPUT_NORMAL))
        for loop, setpoint_c in zip(site.loops, self.setpoint_c, strict=True):
            self._put(loop.supply, setpoint_c)
            self._put(loop.returned, setpoint_c + 9.0)
            self._put(loop.setpoint, setpoint_c)
            self._put(loop.flow, loop.config.design_flow / len(loop.cdus))
            self._put(loop.pump_state, 1.0)
            self._put(loop.leak, 0.0)
        for sensors in site.rack_leak:
            self._put(sensors, 0.0)

    def _flows(self, load_w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W of every feed and element when the loads share what feeds them equally."""
        c, t = self._topology.compiled, self._topology
        normal = c.pair_case[c.feed_pair] == 0
        alive = np.zeros(len(t.feeds))
        alive[c.feed_column[normal & c.feed_alive]] = 1.0
        living = np.maximum(np.bincount(t.feed_load, alive, len(t.loads)), 1.0)
        feed_w = alive * load_w[t.feed_load] / living[t.feed_load]
        feed_w *= 1.0 + 0.002 * self.rng.standard_normal(len(feed_w))
        entry = normal[c.entry_feed]
        put_w = c.entry_weight[entry] * feed_w[c.feed_column[c.entry_feed[entry]]]
        element_w = np.bincount(c.entry_element[entry], put_w, len(t.elements))
        return feed_w, element_w.astype(np.float64)
