"""Set-points that a device forgets: written again at half their life, while they stand.

A device with a watchdog falls back by itself when nobody has written for so long. That is what it
should do when the controller is lost, so nothing but a decided, unmoved, permitted set-point under
a valid lease is written again: who loses the lease, the mode or the permission lets it fall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from controllers.cooling import LoopMemory, LoopOutcome
from controllers.cycle.state import CycleInput
from controllers.cycle.writing import loop_drafts
from controllers.guard import Draft, Withheld, authoriser
from controllers.maintenance import let_be, worked_on
from facility.commands import Command, Mode, Setpoint
from facility.points import PointId
from facility.site import SiteModel

#: Share of its life after which a set-point is written again.
HALF: Final = 0.5
#: Share of it that has passed at most when a controller starts: the last one wrote at half.
AT_START: Final = 0.4
#: A set-point further from what is in force than this moves, and is written for that.
SAME: Final = 0.05


def life_s(site: SiteModel, point: PointId) -> float | None:
    """How long a device keeps a set-point that nobody writes; None: for ever."""
    index = site.table.index.get(point)
    return None if index is None else site.table.specs[index].watchdog_s


def loop_writes(
    site: SiteModel,
    inputs: CycleInput,
    setpoints: Sequence[Setpoint],
    outcomes: Sequence[LoopOutcome],
    memories: Sequence[LoopMemory],
    written_s: Mapping[str, float],
    started_s: float,
) -> tuple[list[Draft], set[PointId], list[Withheld]]:
    """Writes to loops: set-points that move, and those that would be forgotten.

    Args:
        site: the site.
        inputs: of the cycle.
        setpoints: as arbitrated.
        outcomes: per loop.
        memories: per loop; where somebody else wrote, nothing is fought for.
        written_s: point -> when a command for it was last sent; monotonic.
        started_s: of the first cycle.

    Returns:
        Drafts; which of them move nothing; and what waits for the end of a maintenance.
    """
    moving, waiting = let_be(
        site,
        inputs.maintenance,
        inputs.now_ms,
        loop_drafts(site, setpoints, outcomes),
        outcomes,
    )
    spared = {draft.point for draft in moving} | {point for point, _, _ in waiting}
    worked = worked_on(inputs.maintenance, inputs.now_ms)
    kept = [
        draft
        for setpoint in setpoints
        if setpoint.point not in spared and setpoint.point.device not in worked
        if (draft := _kept(site, inputs, setpoint, outcomes, memories, written_s, started_s))
    ]
    return [*moving, *kept], {draft.point for draft in kept}, waiting


def _kept(
    site: SiteModel,
    inputs: CycleInput,
    setpoint: Setpoint,
    outcomes: Sequence[LoopOutcome],
    memories: Sequence[LoopMemory],
    written_s: Mapping[str, float],
    started_s: float,
) -> Draft | None:
    """A write that moves nothing, where one is due and everything still stands."""
    point, control = setpoint.point, site.facility.control
    loop, life = site.setpoint_loop.get(point), life_s(site, point)
    if loop is None or life is None or inputs.epoch is None or not control.enabled:
        return None
    present = outcomes[loop].present_c
    last_s = written_s.get(str(point), started_s - AT_START * life)
    due = inputs.now_s - last_s >= HALF * life
    stands = present is not None and abs(setpoint.value - present) < SAME
    ours = site.mode_of(point, inputs.modes) is Mode.AUTO and not memories[loop].foreign
    if present is None or not (due and stands and ours):
        return None
    if authoriser(point, control.allow) is None:
        return None
    words = f"kept at {present:g}: the device forgets it after {life:g} s without a write"
    return Draft(point, present, present, False, words)


def moved(
    site: SiteModel,
    commands: Sequence[Command],
    kept: set[PointId],
    memories: Sequence[LoopMemory],
) -> tuple[Command, ...]:
    """Commands that a loop must remember as its last move; what is only kept is none.

    The first one of a run is, so that what somebody else writes after it is told as theirs.
    """
    return tuple(
        command
        for command in commands
        if (loop := site.setpoint_loop.get(command.point)) is not None
        and (command.point not in kept or memories[loop].written_c is None)
    )


def remember_written(
    site: SiteModel, written_s: Mapping[str, float], commands: Sequence[Command], now_s: float
) -> Mapping[str, float]:
    """When each set-point that a device forgets was last sent."""
    mine = {str(c.point): now_s for c in commands if life_s(site, c.point) is not None}
    return {**written_s, **mine} if mine else written_s
