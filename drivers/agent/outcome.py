"""What an accepted command came to, in one code and one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from drivers.agent.lease import Action, PowerOff, Restore
from drivers.agent.report import GpuAck


def outcome_of(acks: Sequence[GpuAck], action: Action | None, assumed: Set[str]) -> tuple[str, str]:
    """The code and the sentence of an accepted command, from what each GPU did.

    Args:
        acks: one per GPU asked.
        action: what was asked of them.
        assumed: GPUs whose prior limit is the board's default for want of a reading.
    """
    if isinstance(action, PowerOff):
        return "applied", "the power-off hook runs"
    restore = isinstance(action, Restore)
    if not acks and restore:
        return "applied", "nothing of ours was in force"
    failed = [ack for ack in acks if ack.answer.fault is not None]
    if len(failed) == len(acks):
        reasons: Mapping[str, None] = dict.fromkeys(str(ack.answer.fault) for ack in failed)
        return "gpu_fault", f"no GPU took it: {', '.join(reasons) or 'no GPU found'}"
    unread = sorted({ack.uuid for ack in acks if ack.answer.fault is None} & assumed)
    note = ""
    if unread:
        where = "given back to" if restore else "to be given back to"
        note = f"; {where} the board's default, the limit before was unreadable: "
        note += ", ".join(unread)
    if failed:
        names = ", ".join(f"{ack.uuid}: {ack.answer.fault}" for ack in failed)
        return "clamped", f"{len(failed)} of {len(acks)} GPUs did not take it: {names}{note}"
    if any(not ack.as_asked for ack in acks):
        return "clamped", f"outside the range of the board or below the node's floor{note}"
    return "applied", f"read back as asked{note}"
