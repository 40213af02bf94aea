"""From the caps wanted to the caps written next: lower first and confirmed, then raise in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from controllers.gpu_caps.force import BoolArray, CapForce, CapMemory
from facility.points import FloatArray
from facility.site import SiteModel

#: The site's ramp saved up while nothing moved is worth at most this many seconds of it.
CREDIT_S: Final = 5.0
#: Caps are written in whole watts, rounded down: never above what was proved.
GRAIN_W: Final = 1.0
SMALL_W: Final = 0.5


@dataclass(frozen=True, eq=False)
class CapMoves:
    """The next writes, W per GPU; NaN where nothing is to be written.

    Attributes:
        value_w: float64[N].
        raises: bool[N].
        waiting: why raises that are wanted are not among them; empty if none waits.
    """

    value_w: FloatArray
    raises: BoolArray
    waiting: str


def move_caps(
    site: SiteModel,
    desired_w: FloatArray,
    force: CapForce,
    memory: CapMemory,
    *,
    now_s: float,
    may_raise: BoolArray,
    protect: BoolArray,
    frozen_because: str,
    min_move: float,
    step_w: float = np.inf,
) -> tuple[CapMoves, CapMemory]:
    """Choose what to write now.

    A cap moves when it is at least `min_move` of the board's maximum away, or at once downwards
    where `protect` says so. Raises wait until every lowering has been read back, and together stay
    within the site's ramp.

    Args:
        site: the site.
        desired_w: float64[N], where each cap should be.
        force: caps in force.
        memory: for writes under way and the ramp's credit.
        now_s: monotonic.
        may_raise: bool[N], the data on the node's paths are good in this cycle.
        protect: bool[N], a lowering that may not wait for `min_move`.
        frozen_because: why no cap may rise at all; empty if they may.
        min_move: share of the board's maximum.
        step_w: largest single raise per GPU.
    """
    n = len(site.nodes)
    desired = np.floor(np.clip(desired_w, site.min_cap_w, site.max_cap_w) / GRAIN_W + 1e-6)
    desired = np.maximum(desired * GRAIN_W, site.min_cap_w)
    least = min_move * site.max_cap_w
    gap = desired - force.in_force_w
    under_way = np.zeros(n, dtype=np.bool_)
    under_way[memory.sent.node] = True
    lower = (gap < -SMALL_W) & (protect | (gap <= -least)) & force.answering
    sent = memory.sent
    lower[sent.node[sent.value_w <= desired[sent.node] + SMALL_W]] = False
    value = np.where(lower, desired, np.nan)
    credit, ramp_ws = memory.credit_w, site.facility.site.ramp / 60.0
    power = site.facility.power
    wall_w = site.gpus * (1.0 + power.board_accuracy) / power.psu_efficiency
    if memory.credit_s is not None:
        # What is saved up and what comes in within a minute are together one minute's ramp.
        earned = ramp_ws * (1.0 - CREDIT_S / 60.0) * max(now_s - memory.credit_s, 0.0)
        credit = min(credit + earned, ramp_ws * CREDIT_S)
    else:
        credit = ramp_ws
    wants = (gap >= least) & (gap >= GRAIN_W) & force.answering & ~under_way
    raises = np.zeros(n, dtype=np.bool_)
    waiting = ""
    if wants.any():
        late = (gap < -SMALL_W) & (protect | (gap <= -least)) & force.answering
        if frozen_because:
            waiting = frozen_because
        elif late.any() or not sent.raises.all():
            waiting = "lowerings first: waiting for their read-back"
        else:
            wants &= may_raise & ~force.foreign
            if not wants.any():
                waiting = "data on the paths are not good in this cycle"
            rising = np.flatnonzero(wants)
            steps, credit, ramped = _steps(
                gap[rising], least[rising], np.asarray(wall_w[rising]), credit, step_w
            )
            rising = rising[: len(steps)]
            value[rising] = force.in_force_w[rising] + steps
            raises[rising] = True
            waiting = "the site's ramp" if ramped else waiting
    return CapMoves(value, raises, waiting), replace(memory, credit_w=credit, credit_s=now_s)


def _steps(
    gap: FloatArray, least: FloatArray, wall_w: FloatArray, credit: float, step_w: float
) -> tuple[FloatArray, float, bool]:
    """Raises one after the other until the ramp's credit is used up.

    Args:
        gap: float64[K], W per GPU that each may rise.
        least: float64[K], the least move that is worth a write.
        wall_w: float64[K], W of the site per W of cap.
        credit: W of the site that may be added now.
        step_w: largest single raise.

    Returns:
        The raises, as many as fit, W per GPU; the credit left; whether it was the credit that
        ended them.
    """
    free = np.floor(np.minimum(gap, step_w) / GRAIN_W) * GRAIN_W
    # What is left before each, if all before it rise by all they may.
    left = np.subtract.accumulate(np.concatenate([[credit], free * wall_w]))
    fits = np.maximum(left[:-1], 0.0) / wall_w >= np.minimum(gap, step_w)
    whole = fits & (free >= np.minimum(least, gap)) & (free >= GRAIN_W)
    count = len(gap) if whole.all() else int(np.argmin(whole))
    steps, credit = free[:count].tolist(), float(left[count])
    for i in range(count, len(gap)):
        step = min(gap[i], step_w, max(credit, 0.0) / float(wall_w[i]))
        step = np.floor(step / GRAIN_W) * GRAIN_W
        if step < min(least[i], gap[i]) or step < GRAIN_W:
            return np.array(steps), credit, True
        steps.append(float(step))
        credit -= float(step * float(wall_w[i]))
    return np.array(steps), credit, False
