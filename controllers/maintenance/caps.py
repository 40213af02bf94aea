"""The caps that would follow if something were taken out, found as the cycle would find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controllers.allocation import Problem, heat_rows, solve
from controllers.allocation.plan import Plan
from controllers.headroom import Headroom, study
from controllers.wording import kilowatts, lacking
from facility.points import FloatArray
from facility.site import SiteModel
from facility.topology import Topology

#: A cap that falls by less than this is not told, W per GPU.
NOTICED_W = 1.0


@dataclass(frozen=True, eq=False)
class CapsThatFollow:
    """What the allocation would do.

    Attributes:
        plan: None on a site without nodes.
        headroom: at the caps found, unmanaged loads as forecast.
        lowered: nodes whose cap would fall, and by how many W per GPU.
        moves_w: what the racks may draw less than at the caps in force, W.
    """

    plan: Plan | None
    headroom: Headroom
    lowered: Mapping[str, float]
    moves_w: float

    @property
    def fits(self) -> bool:
        """Whether N+1 holds at these caps."""
        return self.plan.feasible if self.plan is not None else self.headroom.ok

    @property
    def text(self) -> str:
        """A sentence."""
        if self.plan is None:
            return "No caps are managed here."
        if self.plan.missing is not None:
            m = self.plan.missing
            return f"No caps fit: {m.element} lacks {lacking(m.kw * 1e3)} ({m.case})."
        if not self.lowered:
            return "No cap has to come down."
        most = max(self.lowered.values())
        return (
            f"{len(self.lowered)} nodes come down, by up to {most:.0f} W per GPU: "
            f"{kilowatts(self.moves_w)} in all."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        missing = None
        if self.plan is not None and self.plan.missing is not None:
            m = self.plan.missing
            missing = {"element": m.element, "case": m.case, "kw": m.kw, "would_fix": m.would_fix}
        return {
            "fits": self.fits,
            "nodes_lowered": len(self.lowered),
            "most_lowered_w_per_gpu": max(self.lowered.values(), default=0.0),
            "moves_w": self.moves_w,
            "tokens_per_s": None if self.plan is None else self.plan.tokens_per_s,
            "missing": missing,
            "text": self.text,
        }


def caps_that_follow(
    site: SiteModel,
    topology: Topology,
    unmanaged_w: FloatArray,
    split: FloatArray | None,
    in_force_w: FloatArray,
    overhead_w: Mapping[str, float] | None = None,
) -> CapsThatFollow:
    """Solve the allocation of a plant that is not there yet.

    Args:
        site: the site.
        topology: the plant then.
        unmanaged_w: float64[L]; load of everything that has no managed node, W.
        split: float64[F]; as `study` takes it.
        in_force_w: float64[N], caps in force now, W per GPU.
        overhead_w: of racks, where it is measured and not stated.
    """
    if not site.nodes:
        answer = study(topology, unmanaged_w, split)
        return CapsThatFollow(None, answer, {}, 0.0)
    managed = set(site.node_rack.tolist())
    problem = Problem.of(
        topology,
        site.facility.nodes,
        policy=site.facility.controllers.allocation.policy,
        load_w={n: float(unmanaged_w[i]) for i, n in enumerate(topology.loads) if i not in managed},
        split=split,
        overhead_w=overhead_w,
        heat=heat_rows(topology, site.facility.cooling.loops),
    )
    plan = solve(problem)
    caps = np.array([plan.caps_w[name] for name in site.nodes], dtype=np.float64)
    fall = in_force_w - caps
    lowered = {site.nodes[int(i)]: float(fall[i]) for i in np.flatnonzero(fall > NOTICED_W)}
    load_w = problem.load_w(problem.unit_caps(plan.caps_w))
    down = np.maximum(fall, 0.0)
    return CapsThatFollow(
        plan,
        study(topology, load_w, split),
        lowered,
        float((problem.per_w * down).sum()),
    )
