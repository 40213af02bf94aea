"""A GPU node as controllers see it: a device whose readings and writes go through its agent.

The agent's protocol is docs/agent-protocol.md. Readings come from the latest status; a cap is
written by a command that quotes the newest nonce, and is done when the agent's ack says what was
read back, or failing that the next status does.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from drivers.agent.lease import DEADLINE_S, LOCAL, State
from drivers.agent.protocol import (
    OFFLINE,
    CapMessage,
    Header,
    LeaseMessage,
    Message,
    PowerOffMessage,
    ReleaseMessage,
    Topics,
    command_bytes,
    is_owner,
    kind_of,
)
from drivers.agent.report import AgentAck, Status, parse_ack, parse_status
from drivers.node.points import node_layout, node_values
from facility.clock import Clock
from facility.commands import Ack, Command, Outcome
from facility.config import Node
from facility.points import Flaw, Layout, PointId, Scan
from facility.ports import Bus

#: Statuses come each second; three missing in a row are silence.
SILENT_S: Final = 3.5
#: A nonce older than this leaves too little of the deadline: better wait for the next status.
FRESH_S: Final = 1.1
#: Agents take no shorter deadline.
LEAST_DEADLINE_S: Final = 0.1
#: What the agent may need to write eight GPUs and read them back, beyond the deadline itself.
WRITE_S: Final = 1.5
RENEW_S: Final = 5.0
RELEASES: Final = {"applied": Outcome.APPLIED, "clamped": Outcome.CLAMPED}

_log = structlog.get_logger("wattkeeper.node")


class NodeDevice:
    """One node; answers to `facility.ports.Device`.

    Attributes:
        fallback_w: W per GPU that leases carry; None leaves the agent's own.
        managed: False after `release`, until `resume`.
        left_behind: GPUs that the last release could not give back, by UUID.
        refusal: why the agent refused the last lease, None when it did not.
        refused_reports: messages on the node's topics that were no status and no ack.
    """

    def __init__(
        self,
        node_id: str,
        node: Node,
        bus: Bus,
        clock: Clock,
        *,
        prefix: str = "wattkeeper",
        lease_s: float = 15.0,
        hold_s: float = 600.0,
        spread_s: float = 0.0,
        period_s: float = 1.0,
        endpoint: str = "broker",
    ) -> None:
        """Subscribe to a node's topics; the bus is started by its owner.

        Args:
            node_id: name in the facility file, also the device's and the topics'.
            node: its entry; sets the number of GPUs and the plausible ranges.
            bus: shared by all nodes of a broker.
            clock: ages and deadlines.
            prefix: first level of the topics.
            lease_s: how long a lease lives.
            hold_s: how long the agent holds its caps once the lease has ended.
            spread_s: span of the random delay before it goes to its fallback.
            period_s: how often collectors look.
            endpoint: what health reports group nodes by.
        """
        self._id = node_id
        self._bus, self._clock = bus, clock
        self._lease_s, self._hold_s, self._spread_s = lease_s, hold_s, spread_s
        self._period_s, self._endpoint = period_s, endpoint
        self._layout = node_layout(node_id, node)
        self._gpus = node.gpus
        self._topics = Topics.of(prefix, node_id)
        self._cap_point = PointId(node_id, "total", "power_cap")
        self._off_point = PointId(node_id, "total", "power_off")
        self.fallback_w = node.fallback
        self.managed = True
        self.left_behind: tuple[str, ...] = ()
        self.refusal: str | None = None
        self.refused_reports = 0
        self._owner, self._epoch = "", 0
        self._status: Status | None = None
        self._received_s, self._received_ms = float("-inf"), 0
        self._retained = False
        self._offline = False
        self._former_run = ""
        self._sequence = -1
        self._renewed_s = float("-inf")
        self._renewals = 0
        self._news: asyncio.Event = asyncio.Event()
        self._pending: dict[tuple[str, int, int], asyncio.Future[AgentAck]] = {}
        self._turn = asyncio.Lock()
        bus.subscribe(self._topics.status, self._on_status)
        bus.subscribe(self._topics.availability, self._on_availability)
        bus.subscribe(self._topics.ack, self._on_ack)

    @property
    def id(self) -> str:
        """The node's name."""
        return self._id

    @property
    def endpoint(self) -> str:
        """The broker."""
        return self._endpoint

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """One: everything comes in one status."""
        return (self._layout,)

    @property
    def status(self) -> Status | None:
        """The latest live status, None when the node is silent or only a retained one is known."""
        return None if self._retained or self._silent() else self._status

    def period_s(self, layout: Layout) -> float:
        """How often the latest status is looked at."""
        return self._period_s

    async def read(self, layout: Layout) -> Scan:
        """The latest status as a scan; all BAD when the node never spoke or has fallen silent."""
        status = self._status
        if status is None or self._silent():
            flaw = Flaw.TIMEOUT if status is None else Flaw.STALE
            return Scan.missing(layout, flaw, self._clock.utc_ms(), self._clock.monotonic_s())
        values, quality, source_ms = node_values(
            status, self._gpus, layout, self._received_ms, retained=self._retained
        )
        return Scan(layout, values, quality, source_ms, self._received_ms, self._received_s)

    def set_fallback(self, watts: float | None) -> None:
        """Name the cap at which the node ends when nobody holds its lease; sent when renewed.

        A change of less than half a watt is none: agents save each one to their disk.
        """
        known = self.fallback_w
        if watts is not None and known is not None and abs(watts - known) < 0.5:
            return
        if watts != known:
            self.fallback_w = watts
            self._renewed_s = float("-inf")

    def set_lease(self, lease_s: float, hold_s: float, spread_s: float) -> None:
        """Other terms for the next leases; as in the constructor. Sent at once if they differ."""
        if (lease_s, hold_s, spread_s) != (self._lease_s, self._hold_s, self._spread_s):
            self._lease_s, self._hold_s, self._spread_s = lease_s, hold_s, spread_s
            self._renewed_s = float("-inf")

    @property
    def renew_s(self) -> float:
        """How often its lease is renewed."""
        return min(RENEW_S, self._lease_s / 3.0)

    def lease_due(self) -> bool:
        """Whether a renewal is wanted now: it is time, or the agent holds none of ours."""
        status = self.status
        if status is None or not self.managed:
            return False
        since_s = self._clock.monotonic_s() - self._renewed_s
        ours = status.state is State.LEASED and status.owner == self._owner
        held = ours and status.epoch == self._epoch
        return since_s >= (self.renew_s if held else min(0.9, self.renew_s))

    async def renew(self, owner: str, epoch: int) -> bool:
        """Take or renew the lease; False when it could not be sent (no live status, no broker).

        Raises:
            ValueError: agents would refuse every message of an owner with this name.
        """
        if not is_owner(owner):
            raise ValueError(f"{owner!r} cannot be the owner of a lease")
        if (owner, epoch) != (self._owner, self._epoch):
            self._owner, self._epoch, self._sequence = owner, epoch, -1
        status = self.status
        if status is None or not self.managed:
            return False
        self._renewals += 1
        header = Header(owner, epoch, self._renewals, status.nonce)
        fallback_w = self.fallback_w
        lease = LeaseMessage(header, self._lease_s, self._hold_s, self._spread_s, fallback_w)
        if not await self._send(lease):
            return False
        self._renewed_s = self._clock.monotonic_s()
        return True

    async def write(self, command: Command) -> Ack:
        """Set the cap of every GPU of the node, or power it off; one attempt, read back."""
        async with self._turn:
            if command.point not in (self._cap_point, self._off_point):
                return self._ack(command, Outcome.REJECTED, None, "not a writable point")
            if not self.managed:
                return self._ack(command, Outcome.REJECTED, None, "given back to local control")
            if not self._owner or command.epoch != self._epoch:
                return self._ack(command, Outcome.REJECTED, None, "no lease of this epoch")
            age_s = (self._clock.utc_ms() - command.issued_ms) / 1000.0
            left_s = min(command.deadline_s, DEADLINE_S) - max(age_s, 0.0)
            if left_s <= 0.0:
                return self._ack(command, Outcome.REJECTED, None, "past its deadline, not sent")
            self._sequence = max(self._sequence, command.sequence)
            return await self._command(command, left_s)

    async def release(self, sequence: int | None = None) -> Outcome:
        """Give the node back: the agent restores the limits found before the first cap.

        Args:
            sequence: of the hall's commands; one above the last of this node if not given.
        """
        async with self._turn:
            self.managed = False
            status = await self._fresh(DEADLINE_S)
            if status is None:
                return Outcome.UNANSWERED
            if sequence is None:
                sequence = 1 + max(self._sequence, status.applied or 0)
            self._sequence = sequence
            header = Header(self._owner, self._epoch, sequence, status.nonce)
            answer = await self._exchange(
                ReleaseMessage(header, DEADLINE_S), header, DEADLINE_S + WRITE_S
            )
            if answer is None:
                return Outcome.UNANSWERED
            if answer.gpus:
                failed = (gpu.uuid for gpu in answer.gpus if gpu.answer.fault is not None)
                self.left_behind = tuple(failed)
            outcome = RELEASES.get(answer.code)
            if outcome is None and status.state in LOCAL:
                _log.info("node was already released", node=self._id)
                return Outcome.APPLIED
            say = _log.info if outcome is Outcome.APPLIED else _log.warning
            what = "node not released" if outcome is None else "node released"
            say(what, node=self._id, code=answer.code, detail=answer.detail)
            return outcome or Outcome.REJECTED

    def resume(self) -> None:
        """Let the node be leased and commanded again after a release."""
        self.managed = True
        self.left_behind = ()
        self._renewed_s = float("-inf")

    async def close(self) -> None:
        """Nothing to let go of: the bus belongs to its owner, and leases are left to end."""

    async def _command(self, command: Command, left_s: float) -> Ack:
        began_s = self._clock.monotonic_s()
        status = await self._fresh(left_s)
        if status is None:
            return self._ack(command, Outcome.UNANSWERED, None, "the node is silent; not sent")
        now_s = self._clock.monotonic_s()
        left_s -= now_s - began_s
        if left_s <= 0.0:
            return self._ack(command, Outcome.UNANSWERED, None, "past its deadline, not sent")
        header = Header(self._owner, command.epoch, command.sequence, status.nonce)
        # The agent counts from when it made the nonce: void when our own deadline is over, however
        # long the command hung on the way. A read-back after that shows what became of it.
        void_s = max(min(left_s + now_s - self._received_s, DEADLINE_S), LEAST_DEADLINE_S)
        message: CapMessage | PowerOffMessage = CapMessage(header, command.value, void_s)
        if command.point == self._off_point:
            message = PowerOffMessage(header, void_s)
        answer = await self._exchange(message, header, left_s + WRITE_S)
        if answer is not None:
            return self._judge(command, answer)
        return self._read_back(command)

    def _judge(self, command: Command, answer: AgentAck) -> Ack:
        """Turn the agent's ack into an outcome; `actual` is the highest limit now in force."""
        limits = [g.answer.limit_w for g in answer.gpus if g.answer.limit_w is not None]
        actual_w = max(limits, default=None) if len(limits) == len(answer.gpus) else None
        enforced = [g.answer.enforced_w for g in answer.gpus if g.answer.enforced_w is not None]
        detail = answer.detail
        if actual_w is not None and enforced and max(enforced) < actual_w - 1.0:
            detail = f"{detail}; another limiter enforces {max(enforced):.0f} W"
        known = {"applied": Outcome.APPLIED, "clamped": Outcome.CLAMPED}
        outcome = known.get(answer.code, Outcome.REJECTED)
        if outcome is Outcome.REJECTED:
            detail = f"{answer.code}: {detail}"
        return self._ack(command, outcome, actual_w, detail)

    def _read_back(self, command: Command) -> Ack:
        """No ack came: believe what the newest status says of this very command, else nothing."""
        status = self.status
        limits = [] if status is None else [gpu.reading.limit_w for gpu in status.gpus]
        known = [watts for watts in limits if watts is not None]
        actual_w = max(known, default=None) if len(known) == len(limits) else None
        heard = (
            status is not None
            and (status.owner, status.epoch) == (self._owner, command.epoch)
            and status.applied == command.sequence
        )
        if heard and command.point == self._off_point:
            return self._ack(command, Outcome.APPLIED, None, "no ack, read back from the status")
        if heard and actual_w is not None:
            same = all(abs(watts - command.value) <= 1.0 for watts in known)
            outcome = Outcome.APPLIED if same else Outcome.CLAMPED
            return self._ack(command, outcome, actual_w, "no ack, read back from the status")
        return self._ack(command, Outcome.UNANSWERED, actual_w, "no ack within the deadline")

    async def _fresh(self, within_s: float) -> Status | None:
        """A live status young enough to be quoted, waiting for the next one if need be."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    age_s = self._clock.monotonic_s() - self._received_s
                    status = self.status
                    if status is not None and age_s <= FRESH_S:
                        return status
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None

    async def _exchange(
        self,
        message: CapMessage | ReleaseMessage | PowerOffMessage,
        header: Header,
        within_s: float,
    ) -> AgentAck | None:
        key = (kind_of(message), header.epoch, header.sequence)
        future: asyncio.Future[AgentAck] = asyncio.get_running_loop().create_future()
        self._pending[key] = future
        try:
            if not await self._send(message):
                return None
            async with asyncio.timeout(within_s):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._pending[key]

    async def _send(self, message: Message) -> bool:
        return await self._bus.publish(self._topics.command, command_bytes(message))

    def _ack(self, command: Command, outcome: Outcome, actual: float | None, detail: str) -> Ack:
        return Ack(command, outcome, actual, detail, self._clock.utc_ms())

    def _silent(self) -> bool:
        return self._offline or self._clock.monotonic_s() - self._received_s > SILENT_S

    def _on_status(self, topic: str, payload: bytes, retained: bool) -> None:
        try:
            status = parse_status(payload, self._id)
        except ValueError:
            self.refused_reports += 1
            return
        last = self._status
        if retained and last is not None and not self._retained:
            return  # what we heard live is newer than what a broker keeps
        if last is not None and not self._retained:
            if status.run == last.run and status.sequence <= last.sequence:
                return
            if status.run == self._former_run:
                return
            if status.run != last.run:
                self._former_run = last.run
        self._status, self._retained = status, retained
        self._received_s, self._received_ms = self._clock.monotonic_s(), self._clock.utc_ms()
        if not retained:
            self._offline = False
            if status.state is State.LEASED and status.owner == self._owner:
                self.refusal = None
            self._news.set()

    def _on_availability(self, topic: str, payload: bytes, retained: bool) -> None:
        """A live `offline` makes the node silent at once; `online` waits for a status."""
        if payload == OFFLINE and not retained:
            self._offline = True

    def _on_ack(self, topic: str, payload: bytes, retained: bool) -> None:
        if retained:
            return
        try:
            answer = parse_ack(payload, self._id)
        except ValueError:
            self.refused_reports += 1
            return
        if answer.owner != self._owner:
            return
        future = self._pending.get((answer.kind, answer.epoch, answer.sequence))
        if future is not None and not future.done():
            future.set_result(answer)
        elif answer.kind == "lease":
            self.refusal = f"{answer.code}: {answer.detail}"
