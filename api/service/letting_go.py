"""Give nodes and loops back to local control, and say what that moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from api.hall import Released
from drivers.node import NodeDevice
from facility.commands import Outcome
from facility.config import Facility


def preview(
    scope: str, nodes: Sequence[NodeDevice], facility: Facility, loops: Sequence[str]
) -> Released:
    """What a release lets happen: every board may go back to the limit it had before us.

    The agents know those limits, we count the boards' maximum: the load can rise by no more.
    """
    moves_w: float | None = 0.0
    for node in nodes:
        config = facility.nodes[node.id]
        status = node.status
        caps = [] if status is None else [g.enforced_w for g in status.gpus]
        if not caps or any(cap is None for cap in caps):
            moves_w = None
            continue
        if moves_w is not None:
            moves_w += sum(max(config.max_cap - float(cap), 0.0) for cap in caps if cap is not None)
    parts = []
    if nodes:
        much = "an unknown amount" if moves_w is None else f"up to {moves_w / 1e6:.3f} MW"
        parts.append(f"{len(nodes)} nodes return to their own limits: the load may rise by {much}")
    if loops:
        parts.append(f"the supply temperature of {', '.join(loops)} stays where it is, at the CDU")
    return Released(scope, moves_w, "; ".join(parts) + "." if parts else "Nothing is controlled.")


async def let_go(planned: Released, nodes: Sequence[NodeDevice]) -> Released:
    """Release every node at once; the text names those that did not answer."""
    outcomes = await asyncio.gather(*(node.release() for node in nodes))
    silent = [
        node.id
        for node, outcome in zip(nodes, outcomes, strict=True)
        if outcome not in (Outcome.APPLIED, Outcome.CLAMPED)
    ]
    if not silent:
        return planned
    names = ", ".join(silent[:5]) + (" …" if len(silent) > 5 else "")
    words = f"{len(silent)} nodes did not answer and follow when their lease ends: {names}."
    return replace(planned, text=f"{planned.text} {words}")
