"""Who may move the caps, and what happens when nobody does: the agent's state machine, pure.

Times are seconds of the agent's own monotonic clock. A controller proves how fresh it is by
quoting a nonce that the agent made at a known moment, so no other clock matters. The law of this
module: without a valid lease no cap ever rises (control.md §2, "Leases and fallback").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from drivers.agent.protocol import (
    CapMessage,
    Header,
    LeaseMessage,
    Message,
    PowerOffMessage,
    Refusal,
    ReleaseMessage,
)


class State(IntEnum):
    """The agent's state code, as in the point `total:state`."""

    UNMANAGED = 0
    LEASED = 1
    HOLDING = 2
    FALLBACK = 3
    RELEASED = 4


#: States in which a node's limits are its own.
LOCAL: Final = (State.UNMANAGED, State.RELEASED)


#: A command is void this long after the agent made the nonce that it quotes, whatever it says.
DEADLINE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything the machine remembers.

    Attributes:
        owner, epoch: of the newest lease ever seen; older epochs are refused.
        sequence: of the last cap or release accepted in this epoch, -1 before the first.
        lease_until_s: when the lease ends, or ended.
        hold_s, spread_s: what the lease said is to happen after it.
        move_at_s: when a holding node goes to its fallback; None outside HOLDING.
        fallback_w: W per GPU, None when nobody ever named one.
        commanded_w: W per GPU last written by us, None when nothing of ours is in force.
        released: given back to local control by a release, not taken since.
    """

    state: State = State.UNMANAGED
    owner: str = ""
    epoch: int = 0
    sequence: int = -1
    lease_until_s: float = 0.0
    hold_s: float = 600.0
    spread_s: float = 0.0
    move_at_s: float | None = None
    fallback_w: float | None = None
    commanded_w: float | None = None
    released: bool = False


@dataclass(frozen=True, slots=True)
class SetCap:
    """Write this limit to every GPU: a command under a lease, so it may rise."""

    watts: float


@dataclass(frozen=True, slots=True)
class LowerTo:
    """Bring every GPU down to this limit; one that is lower stays where it is."""

    watts: float


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back the limits that were there before the first write."""


@dataclass(frozen=True, slots=True)
class PowerOff:
    """Run the site's power-off hook; limits stay as they are."""


Action = SetCap | LowerTo | Restore | PowerOff


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a message came to: the new standing, and either an action or a refusal."""

    standing: Standing
    action: Action | None = None
    refusal: Refusal | None = None


def boot(standing: Standing, now_s: float, *, rebooted: bool, chance: float) -> Verdict:
    """The standing with which a run of the agent begins, and what it must write first.

    A fresh boot means that limits are back at the driver's default and that no workload runs
    yet: the fallback is applied. A mere restart holds what was commanded. Neither raises a cap.

    Args:
        standing: as saved by the last run, or new with the configured fallback.
        now_s: now.
        rebooted: the machine was started since the standing was saved, or it never was.
        chance: 0..1, picks the moment inside `spread_s` of a later move.
    """
    if standing.released:
        return Verdict(replace(standing, state=State.RELEASED, move_at_s=None))
    floor_w = standing.fallback_w if standing.fallback_w is not None else standing.commanded_w
    if rebooted and floor_w is not None:
        settled = replace(standing, state=State.FALLBACK, commanded_w=floor_w, move_at_s=None)
        return Verdict(settled, LowerTo(floor_w))
    if standing.commanded_w is None:
        return Verdict(replace(standing, state=State.UNMANAGED, move_at_s=None))
    if standing.state is State.FALLBACK:
        return Verdict(replace(standing, move_at_s=None), LowerTo(standing.commanded_w))
    return Verdict(_hold(standing, now_s, chance), LowerTo(standing.commanded_w))


def _hold(standing: Standing, since_s: float, chance: float) -> Standing:
    move_at_s = since_s + standing.hold_s + chance * standing.spread_s
    return replace(standing, state=State.HOLDING, move_at_s=move_at_s)


def tick(standing: Standing, now_s: float, chance: float) -> Verdict:
    """Let time pass: end a lease, end a hold."""
    if standing.state is State.LEASED and now_s >= standing.lease_until_s:
        if standing.commanded_w is None:
            state = State.RELEASED if standing.released else State.UNMANAGED
            return Verdict(replace(standing, state=state))
        standing = _hold(standing, standing.lease_until_s, chance)
    if (
        standing.state is State.HOLDING
        and standing.move_at_s is not None
        and now_s >= standing.move_at_s
        and standing.fallback_w is not None
    ):
        fallback_w = standing.fallback_w
        if standing.commanded_w is not None:
            fallback_w = min(fallback_w, standing.commanded_w)
        settled = replace(standing, state=State.FALLBACK, move_at_s=None, commanded_w=fallback_w)
        return Verdict(settled, LowerTo(fallback_w))
    return Verdict(standing)


def hear(standing: Standing, message: Message, now_s: float, made_s: float | None) -> Verdict:
    """Judge one message; `tick` must have been called for the same `now_s`.

    Args:
        standing: before.
        message: as parsed.
        now_s: now.
        made_s: when the agent made the nonce quoted, None if it does not know it.
    """
    refusal = _distrust(standing, message.header, made_s)
    if refusal is not None:
        return Verdict(standing, refusal=refusal)
    assert made_s is not None  # _distrust refuses it
    if isinstance(message, LeaseMessage):
        return _lease(standing, message, now_s, made_s)
    if now_s - made_s > min(message.deadline_s, DEADLINE_S):
        return Verdict(standing, refusal="too_old")
    head = message.header
    if standing.state is not State.LEASED or head.epoch != standing.epoch:
        return Verdict(standing, refusal="no_lease")
    if head.sequence <= standing.sequence:
        return Verdict(standing, refusal="stale_sequence")
    heard = replace(standing, sequence=head.sequence)
    if isinstance(message, CapMessage):
        return Verdict(
            replace(heard, commanded_w=message.cap_w, released=False), SetCap(message.cap_w)
        )
    if isinstance(message, PowerOffMessage):
        return Verdict(heard, PowerOff())
    return _release(heard, message, now_s)


def _distrust(standing: Standing, header: Header, made_s: float | None) -> Refusal | None:
    if header.epoch < standing.epoch:
        return "stale_epoch"
    if header.epoch == standing.epoch and standing.owner and header.owner != standing.owner:
        return "wrong_owner"
    return "unknown_nonce" if made_s is None else None


def _lease(standing: Standing, message: LeaseMessage, now_s: float, made_s: float) -> Verdict:
    until_s = made_s + message.ttl_s
    if until_s <= now_s:
        return Verdict(standing, refusal="too_old")
    head = message.header
    newer = head.epoch > standing.epoch or not standing.owner
    fallback_w = standing.fallback_w if message.fallback_w is None else message.fallback_w
    # A renewal that overtook another must not shorten the lease of the same owner.
    if not newer and standing.state is State.LEASED:
        until_s = max(until_s, standing.lease_until_s)
    return Verdict(
        replace(
            standing,
            state=State.LEASED,
            owner=head.owner,
            epoch=head.epoch,
            sequence=-1 if newer else standing.sequence,
            lease_until_s=until_s,
            hold_s=message.hold_s,
            spread_s=message.spread_s,
            move_at_s=None,
            fallback_w=fallback_w,
        )
    )


def _release(standing: Standing, message: ReleaseMessage, now_s: float) -> Verdict:
    given_back = replace(
        standing,
        state=State.RELEASED,
        lease_until_s=now_s,
        move_at_s=None,
        commanded_w=None,
        released=True,
    )
    return Verdict(given_back, Restore())
