"""A node's status as columns: which points a node has, and their values with their quality."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from drivers.agent.report import GpuReport, Status
from facility.config import Node
from facility.kinds import KINDS
from facility.points import (
    ByteArray,
    Flaw,
    FloatArray,
    Grade,
    Layout,
    PointId,
    PointSpec,
    quality,
)

#: A node whose clock is further off than this is noted, nothing more: ages are ours.
SKEW_MS: Final = 5000
STALE_S: Final = 5.0
STATES: Final = (
    (0, "unmanaged"), (1, "leased"), (2, "holding"), (3, "fallback"), (4, "released"),
)  # fmt: skip
_GPU_KINDS: Final = (
    "active_power", "temperature", "margin", "power_cap", "power_cap_enforced", "clock", "state",
)  # fmt: skip
_NODE_KINDS: Final = (
    "active_power", "power_cap", "tokens_generated", "tokens_prompt", "requests_running",
    "requests_waiting", "state",
)  # fmt: skip
_WATTS: Final = frozenset({"active_power", "power_cap", "power_cap_enforced"})


def node_layout(node_id: str, node: Node) -> Layout:
    """Points of a node: `gpu.0` … in the order of indexes, then `total`."""
    points = [
        _spec(PointId(node_id, f"gpu.{i}", kind), 2.0 * node.max_cap)
        for i in range(node.gpus)
        for kind in _GPU_KINDS
    ]
    for kind in _NODE_KINDS:
        # A node's power sums its GPUs; its cap is W per GPU.
        most_w = 2.0 * node.max_cap * (node.gpus if kind == "active_power" else 1)
        points.append(_spec(PointId(node_id, "total", kind), most_w))
    return Layout(node_id, "fast", tuple(points))


def _spec(point: PointId, most_w: float) -> PointSpec:
    kind = KINDS[point.kind]
    total = point.part == "total"
    return PointSpec(
        point,
        kind.low if point.kind not in _WATTS else 0.0,
        kind.high if point.kind not in _WATTS else most_w,
        stale_after_s=STALE_S,
        writable=total and point.kind == "power_cap",
        states=STATES if total and point.kind == "state" else (),
    )


def node_values(
    status: Status, gpus: int, layout: Layout, received_ms: int, *, retained: bool
) -> tuple[FloatArray, ByteArray, int]:
    """Values and quality of a status in the order of the layout, and its source time (UTC ms).

    A node's power is BAD unless every GPU told its own: a part of a sum is not the sum. Its cap
    is the highest of its GPUs, SUSPECT unless all told theirs.
    """
    by_index = {gpu.index: gpu for gpu in status.gpus}
    rows: list[float | None] = []
    for i in range(gpus):
        rows.extend(_gpu_values(by_index.get(i)))
    found = [by_index[i] for i in range(gpus) if i in by_index]
    powers = [gpu.reading.power_w for gpu in found]
    limits = [gpu.reading.limit_w for gpu in found]
    known_w = [watts for watts in powers if watts is not None]
    caps_w = [watts for watts in limits if watts is not None]
    tokens = status.tokens
    rows += [
        sum(known_w) if len(known_w) == gpus else None,
        max(caps_w, default=None),
        None if tokens is None else tokens.generated,
        None if tokens is None else tokens.prompt,
        None if tokens is None else tokens.running,
        None if tokens is None else tokens.waiting,
        float(status.state),
    ]
    values = np.array([math.nan if row is None else row for row in rows], dtype=np.float64)
    skewed = status.utc_ms is None or abs(status.utc_ms - received_ms) > SKEW_MS
    packed = np.full(
        len(layout), quality(Grade.GOOD, Flaw.CLOCK_SKEW if skewed else Flaw.NONE), dtype=np.uint8
    )
    if retained:
        packed[:] = quality(Grade.SUSPECT, Flaw.RETAINED)
    cap = layout.points.index(next(p for p in layout.points if p.writable))
    if len(caps_w) < gpus:
        packed[cap] = quality(Grade.SUSPECT, Flaw.DEVICE_FAULT)
    low = np.array([point.low for point in layout.points])
    high = np.array([point.high for point in layout.points])
    with np.errstate(invalid="ignore"):
        packed[(values < low) | (values > high)] = quality(Grade.SUSPECT, Flaw.IMPLAUSIBLE)
    packed[np.isnan(values)] = quality(Grade.BAD, Flaw.DEVICE_FAULT)
    source_ms = received_ms if skewed or status.utc_ms is None else status.utc_ms
    return values, packed, source_ms


def _gpu_values(gpu: GpuReport | None) -> tuple[float | None, ...]:
    if gpu is None:
        return (None,) * len(_GPU_KINDS)
    read = gpu.reading
    return (
        read.power_w,
        read.temperature_c,
        read.margin_k,
        read.limit_w,
        read.enforced_w,
        read.clock_hz,
        None if read.events is None else float(read.events),
    )
