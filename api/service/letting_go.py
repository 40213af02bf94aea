"""Give nodes and loops back to local control, inside the site's ramp, and say what that moves.

A hall that is released node by node at once would be the site's largest load step: every board
may go back to the limit it had before us. So nodes are released in turns, paced by what each may
let the load rise; until its turn comes a node holds its cap under a lease that goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from api.hall import Released
from controllers.headroom import Headroom, kilowatts
from drivers.agent.lease import LOCAL
from drivers.node import NodeDevice
from facility.commands import Outcome
from facility.config import Facility

log = structlog.get_logger(__name__)

#: A node that does not answer is asked this many times; then its lease ends by itself.
TRIES: Final = 3
#: So many elements at risk are named.
NAMED: Final = 4
#: Between two tries of one node, so that a broker or an agent may come back, seconds.
AGAIN_S: Final = 10.0


def walk_seconds(facility: Facility) -> float:
    """Over how long orphaned nodes spread their walk to the fallback: the hall stays in its ramp.

    The most that all of them together can move, over the site's ramp (control law 2).
    """
    most_w = sum(n.gpus * max(n.max_cap - n.min_cap, 0.0) for n in facility.nodes.values())
    return 60.0 * most_w / facility.site.ramp


class LettingGo:
    """Releases nodes in turns, in the background.

    Attributes:
        unanswered: nodes that were given up after `TRIES`; they follow when their lease ends.
    """

    def __init__(self, nodes: Mapping[str, NodeDevice], facility: Facility) -> None:
        self._nodes = nodes
        self._facility = facility
        self._queue: list[str] = []
        self._tries: dict[str, int] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self.unanswered: set[str] = set()

    @property
    def pending(self) -> tuple[str, ...]:
        """Nodes whose turn has not come, in the order of their turns."""
        return tuple(self._queue)

    @property
    def busy(self) -> bool:
        """Whether a release is going on: nodes wait for their turn or for their answer."""
        return bool(self._queue or self._running)

    def preview(
        self,
        scope: str,
        nodes: Sequence[NodeDevice],
        loops: Sequence[str],
        at_most: Headroom | None = None,
    ) -> Released:
        """What a release lets happen: every board may go back to the limit it had before us.

        The agents know those limits, we count the boards' maximum: the load can rise by no more.
        A node that tells no cap is spread as if it stood at its lowest; one that is local already
        moves nothing.

        Args:
            scope: to be released.
            nodes: in it.
            loops: in it.
            at_most: headroom if every one of `leaving(nodes)` rose to its boards' maximum.
        """
        here, nodes = nodes, self.leaving(nodes)
        moves_w: float | None = 0.0
        for node in nodes:
            rise_w = self._known_rise_w(node)
            moves_w = None if moves_w is None or rise_w is None else moves_w + rise_w
        parts = []
        if nodes:
            much = "an unknown amount" if moves_w is None else f"up to {amount(moves_w)}"
            ahead = [name for name in self._queue if name not in {node.id for node in nodes}]
            took = spoken(self._seconds([*ahead, *(node.id for node in nodes)]))
            parts.append(
                f"{len(nodes)} nodes return to their own limits {took}: the load may rise by {much}"
            )
            silent = [node.id for node in nodes if node.status is None]
            if silent:
                names = ", ".join(silent[:5]) + (" …" if len(silent) > 5 else "")
                parts.append(f"{len(silent)} of them are silent and may follow later: {names}")
            if at_most is not None and (risk := at_risk(at_most)):
                parts.append(risk)
        if already := len(here) - len(nodes):
            which = "the" if already == len(here) else f"{already} other"
            parts.append(f"{which} nodes are already released")
        left = [f"{node.id} ({', '.join(node.left_behind)})" for node in here if node.left_behind]
        if left:
            parts.append(f"GPUs that the last release could not give back: {', '.join(left)}")
        if loops:
            parts.append(
                f"the supply temperature of {', '.join(loops)} stays where it is, at the CDU"
            )
        text = "; ".join(parts) + "." if parts else "Nothing is controlled."
        text = text[0].upper() + text[1:]
        return Released(scope, moves_w, text)

    def leaving(self, nodes: Sequence[NodeDevice]) -> list[NodeDevice]:
        """Those of `nodes` whose limits are not their own yet."""
        return [node for node in nodes if not _local(node)]

    def add(self, nodes: Sequence[NodeDevice]) -> None:
        """Release these in turns; those already waiting keep their place."""
        for node in nodes:
            self._tries[node.id] = 0
            self.unanswered.discard(node.id)
            if node.id not in self._queue and node.id not in self._running:
                self._queue.append(node.id)
        self._news.set()

    def keep(self, nodes: Sequence[NodeDevice]) -> None:
        """Somebody took control again: these are not released after all."""
        for node in nodes:
            self._tries.pop(node.id, None)
            self.unanswered.discard(node.id)
            if node.id in self._queue:
                self._queue.remove(node.id)
            task = self._running.pop(node.id, None)
            if task is not None:
                task.cancel()

    async def run(self) -> None:
        """Release whoever waits, one turn after the other; until cancelled."""
        try:
            while True:
                while self._queue:
                    name = self._queue.pop(0)
                    rise_w = self._rise_w(name)
                    self._running[name] = asyncio.create_task(self._release(name))
                    # The turn is over when the ramp has room again, whether the node answers or
                    # not: an answer that was lost may have raised its limits all the same.
                    await asyncio.sleep(60.0 * rise_w / self._pace_w_per_min())
                self._news.clear()
                await self._news.wait()
        finally:
            for task in self._running.values():
                task.cancel()
            self._queue[:0] = self._running
            self._running.clear()

    async def _release(self, name: str) -> None:
        try:
            outcome = await self._nodes[name].release()
        except Exception as error:  # noqa: BLE001 - one node's fault must not hold up the others
            log.error("release_failed", node=name, error=repr(error))
            outcome = Outcome.UNANSWERED
        if outcome in (Outcome.APPLIED, Outcome.CLAMPED):
            if left := self._nodes[name].left_behind:
                log.warning("node_partly_released", node=name, gpus=list(left))
            self._end(name)
            return
        self._tries[name] = self._tries.get(name, 0) + 1
        if self._tries[name] >= TRIES:
            log.warning("node_not_released", node=name, outcome=outcome.value)
            self.unanswered.add(name)
            self._end(name)
            return
        await asyncio.sleep(AGAIN_S)
        del self._running[name]
        self._queue.append(name)
        self._news.set()

    def _end(self, name: str) -> None:
        del self._running[name]
        self._tries.pop(name, None)
        if not self.busy:
            left = {name: list(n.left_behind) for name, n in self._nodes.items() if n.left_behind}
            log.info("release_finished", unanswered=sorted(self.unanswered), left_behind=left)

    def _pace_w_per_min(self) -> float:
        """Watts a minute, such that no second sees more than the ramp, its last node included.

        Where one node is more than a second of the ramp allows, no minute sees more than the ramp.
        """
        ramp = self._facility.site.ramp
        largest_w = max((self._most_w(name) for name in self._nodes), default=0.0)
        return max(ramp - 60.0 * largest_w, ramp / 2.0)

    def _seconds(self, names: Sequence[str]) -> float:
        """How long the turns of these take; nobody waits for the end of the last one."""
        waits = [self._rise_w(name) for name in names][:-1]
        return 60.0 * sum(waits) / self._pace_w_per_min()

    def _rise_w(self, name: str) -> float:
        known = self._known_rise_w(self._nodes[name])
        return self._most_w(name) if known is None else known

    def _most_w(self, name: str) -> float:
        config = self._facility.nodes[name]
        return config.gpus * max(config.max_cap - config.min_cap, 0.0)

    def _known_rise_w(self, node: NodeDevice) -> float | None:
        if _local(node):
            return 0.0
        status = node.status
        caps = [] if status is None else [g.enforced_w for g in status.gpus]
        known = [float(cap) for cap in caps if cap is not None]
        if not known or len(known) < len(caps):
            return None
        most_w = self._facility.nodes[node.id].max_cap
        return sum(max(most_w - cap, 0.0) for cap in known)


def _local(node: NodeDevice) -> bool:
    """Whether the agent says that the node's limits are its own: released or never capped."""
    return node.status is not None and node.status.state in LOCAL


def amount(power_w: float) -> str:
    """`79 kW`; megawatts from one on."""
    return kilowatts(power_w) if abs(power_w) < 1e6 else f"{power_w / 1e6:.2f} MW"


def at_risk(headroom: Headroom) -> str:
    """Which elements a load would overload, or leave without N+1; "" if none."""
    over = {
        name: float(normal_w - limit_w)
        for name, normal_w, limit_w in zip(
            headroom.topology.elements, headroom.normal_w, headroom.limit_w, strict=True
        )
        if normal_w > limit_w
    }
    thin = [(name, lacks_w) for name, _, lacks_w in headroom.negative() if name not in over]
    if not over and not thin:
        return ""
    parts = []
    if over:
        worst = sorted(over.items(), key=lambda item: -item[1])
        parts.append(f"{_each(worst)} would exceed its limit")
    if thin:
        parts.append(f"{_each(thin)} would lose N+1")
    return f"at that maximum {', and '.join(parts)}"


def _each(elements: Sequence[tuple[str, float]]) -> str:
    text = ", ".join(f"{name} (by {kilowatts(by_w)})" for name, by_w in elements[:NAMED])
    more = len(elements) - NAMED
    return text + (f" and {more} more" if more > 0 else "")


def spoken(seconds: float) -> str:
    """How long a release takes: "at once", "over about 40 s", "over about 3 min"."""
    if seconds < 1.0:
        return "at once"
    if seconds < 90.0:
        return f"over about {max(5.0 * round(seconds / 5.0), 5.0):.0f} s"
    return f"over about {seconds / 60.0:.0f} min"
