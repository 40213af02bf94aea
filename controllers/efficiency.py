"""Tokens per watt, per rack and hall: joules and tokens over windows, and the p5 of 5 minutes.

Energy is the integral of the racks' metered power (PDU counters are too coarse for minutes);
tokens come from the counters of the inference engines that the file names, of other nodes from the
agents'. A gap in either makes no claim for its span.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from facility.lazily import Lazily
from facility.points import FloatArray
from facility.site import SiteModel
from facility.snapshot import Snapshot

STEP_S: Final = 5.0
WINDOW: Final = 60  # of STEP_S: five minutes
KEPT: Final = 288  # five-minute values: one day
JUMP: Final = 1e7  # tokens per second of a node that no counter can really make


@dataclass(frozen=True, eq=False)
class EfficiencyMemory:
    """Counters at the last step and the window's steps.

    Attributes:
        tokens: float64[S], counters of `site.token_points` at the last step; NaN unknown.
        joules: float64[R], since the last step.
        seconds: float64[R], of metered time since the last step.
        steps: float64[W, 2, R], newest last: tokens and joules per step; NaN no claim.
        spans: seconds of each step.
        values: float64[V, R], five-minute tokens per joule, newest last.
        twin: tokens and Wh of the twin at the window's start and now.
    """

    tokens: FloatArray
    joules: FloatArray
    seconds: FloatArray
    steps: FloatArray
    spans: tuple[float, ...] = ()
    values: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    since_valued: int = 0
    at_s: float | None = None
    last_s: float | None = None
    twin: tuple[tuple[float, float], ...] = ()
    fell: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @classmethod
    def empty(cls, site: SiteModel) -> EfficiencyMemory:
        """Nothing counted yet."""
        racks = len(site.racks)
        return cls(
            np.full(len(site.token_points), np.nan),
            np.zeros(racks),
            np.zeros(racks),
            np.zeros((0, 2, racks)),
            (),
            np.zeros((0, racks)),
        )


def account(
    site: SiteModel, snapshot: Snapshot, rack_w: FloatArray, memory: EfficiencyMemory
) -> tuple[Mapping[str, Any], EfficiencyMemory]:
    """Add one cycle and say what is known.

    Args:
        site: the site.
        snapshot: the present.
        rack_w: float64[R], metered power of each rack; NaN unmetered.
        memory: of the cycle before.

    Returns:
        The `efficiency` facts, and the memory.
    """
    now = snapshot.now_s
    tokens = snapshot.good(site.token_points)
    if memory.at_s is None or memory.last_s is None:
        memory = replace(memory, tokens=tokens, at_s=now, last_s=now, twin=_twin(site, snapshot))
        return _facts(site, memory, rack_w), memory
    dt = max(now - memory.last_s, 0.0)
    known = ~np.isnan(rack_w)
    joules = memory.joules + np.where(known, rack_w, 0.0) * dt
    seconds = memory.seconds + np.where(known, dt, 0.0)
    memory = replace(memory, joules=joules, seconds=seconds, last_s=now)
    span = now - (memory.at_s or now)
    if span < STEP_S:
        return _facts(site, memory, rack_w), memory
    made = tokens - memory.tokens
    fell = made < 0.0
    if len(memory.fell) == len(fell):
        fell &= ~memory.fell
    with np.errstate(invalid="ignore"):
        made = np.where((made < 0.0) | (made > JUMP * span), np.nan, made)
    racks = len(site.racks)
    of_rack = site.node_rack[site.token_node]
    per_rack = np.bincount(of_rack, made, racks) if made.size else np.zeros(racks)
    whole = seconds >= 0.9 * span
    step = np.stack([per_rack, np.where(whole, joules * span / np.maximum(seconds, 1e-9), np.nan)])
    steps = np.concatenate([memory.steps, step[None]])[-WINDOW:]
    spans = (*memory.spans, span)[-WINDOW:]
    values, since = memory.values, memory.since_valued + 1
    if since >= WINDOW:
        values = np.concatenate([values, _ratio(steps)[None]])[-KEPT:]
        since = 0
    twin = (*memory.twin, *_twin(site, snapshot))[-(WINDOW + 1) :]
    memory = EfficiencyMemory(
        np.where(fell, memory.tokens, tokens),
        np.zeros(racks),
        np.zeros(racks),
        steps,
        spans,
        values,
        since,
        now,
        now,
        twin,
        fell,
    )
    return _facts(site, memory, rack_w), memory


def _twin(site: SiteModel, snapshot: Snapshot) -> tuple[tuple[float, float], ...]:
    pair = snapshot.good(np.array([site.twin_tokens, site.twin_energy]))
    return () if np.isnan(pair).any() else ((float(pair[0]), float(pair[1])),)


def _ratio(steps: FloatArray) -> FloatArray:
    """float64[R]: tokens per joule over the steps in which both are known."""
    tokens, joules = steps[:, 0], steps[:, 1]
    both = ~(np.isnan(tokens) | np.isnan(joules))
    top, bottom = np.where(both, tokens, 0.0).sum(axis=0), np.where(both, joules, 0.0).sum(axis=0)
    return np.where(bottom > 0.0, top / np.maximum(bottom, 1e-9), np.nan)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _facts(site: SiteModel, memory: EfficiencyMemory, rack_w: FloatArray) -> Mapping[str, Any]:
    steps = memory.steps
    span = float(sum(memory.spans))
    ratio = _ratio(steps) if len(steps) else np.full(len(site.racks), np.nan)
    made = steps[:, 0].sum(axis=0) if len(steps) else np.full(len(site.racks), np.nan)
    rate = made / span if span > 0.0 else np.full(len(site.racks), np.nan)
    values = memory.values

    def of_racks() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for i, rack in enumerate(site.racks):
            mine = values[~np.isnan(values[:, i]), i] if len(values) else np.zeros(0)
            found[rack] = {
                "tokens_per_s": _number(float(rate[i])),
                "power_w": _number(float(rack_w[i])),
                "tokens_per_joule": _number(float(ratio[i])),
                "sustained_p5": float(np.percentile(mine, 5)) if mine.size else None,
            }
        return found

    hall: dict[str, Any] = {
        "tokens_per_s": _number(float(rate.sum())),
        "power_w": _number(float(rack_w.sum())),
        "tokens_per_joule": None,
        "sustained_p5": None,
        "window_s": span,
        "divides_by": "rack",
    }
    if len(steps):
        whole = steps.sum(axis=2, keepdims=True)
        hall["tokens_per_joule"] = _number(float(_ratio(whole)[0]))
    complete = values[~np.isnan(values).any(axis=1)] if len(values) else values
    if len(complete):
        hall["sustained_p5"] = float(np.percentile(complete.mean(axis=1), 5))
    twin = None
    if len(memory.twin) >= 2:
        made_by_twin = memory.twin[-1][0] - memory.twin[0][0]
        joules = 3600.0 * (memory.twin[-1][1] - memory.twin[0][1])
        if made_by_twin >= 0.0 and joules > 0.0:
            twin = {"tokens_per_joule": made_by_twin / joules}
    own = hall["tokens_per_joule"]
    versus = None if twin is None or own is None else own / max(twin["tokens_per_joule"], 1e-12)
    now = {"racks": None, "hall": hall, "twin": twin, "versus_twin": versus}
    return Lazily(now, {"racks": of_racks})
