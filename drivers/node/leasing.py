"""Leases of nodes, renewed for as long as this hall is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from drivers.node.device import RENEW_S, NodeDevice


async def keep_leases(
    nodes: Sequence[NodeDevice],
    held: Callable[[], tuple[str, int] | None],
    *,
    every_s: float = 0.5,
) -> None:
    """Renew the leases of nodes for as long as the hall's own lease is held; runs until cancelled.

    Args:
        nodes: whose leases to keep; those given back are left alone.
        held: (owner, epoch) of the hall's lease now, None when it is not held.
        every_s: how often to look for leases that are due.
    """
    while True:
        lease = held()
        if lease is not None:
            for node in nodes:
                if node.lease_due():
                    await node.renew(*lease)
        # Short leases are looked at more often than they are due.
        shortest_s = min((node.renew_s for node in nodes[:1]), default=RENEW_S)
        await asyncio.sleep(min(every_s, shortest_s / 2.0))
