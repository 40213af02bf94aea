"""Recompute every decision of a recorded run and compare, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controllers.cycle import decide
from controllers.cycle.state import CycleInput, Memory, recorded_shape
from facility.config import Facility
from facility.exact import decode, digest
from facility.points import Scan
from facility.recording import RecordedCycle, RecordedMemory, Recording, RecordingError
from facility.site import SiteModel
from facility.snapshot import LiveImage, Snapshot

#: What reading a damaged or foreign line may raise.
BAD_LINE: Final = (KeyError, TypeError, ValueError, IndexError, AttributeError)


@dataclass(frozen=True, slots=True)
class Difference:
    """One cycle that came out otherwise.

    Attributes:
        commands: of the recomputed decision, as text, to show what changed.
    """

    cycle: int
    recorded: str
    recomputed: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class ReplayReport:
    """What a replay found.

    Attributes:
        same: every decision is equal (with another configuration: none of them need be).
        checkpoints_ok: memory at every checkpoint equals the recorded one.
    """

    cycles: int
    scans: int
    differences: tuple[Difference, ...]
    checkpoints: int
    checkpoints_ok: bool

    @property
    def same(self) -> bool:
        """Whether everything came out equal."""
        return not self.differences and self.checkpoints_ok


def replay(
    recording: Recording, load: Callable[[str], Facility], config_override: str | None = None
) -> ReplayReport:
    """Run the controllers over a recording.

    Args:
        recording: from `facility.recording.read_recording`.
        load: makes a facility of a file's text (`facility.loading`).
        config_override: text of another facility file to decide with.

    Raises:
        RecordingError: the file is damaged, or was recorded by another version.
    """
    recording.must_have(recorded_shape())
    facility = load(recording.facility_text if config_override is None else config_override)
    site = SiteModel.of(facility, recording.table)
    image, memory = LiveImage(recording.table), Memory.empty(site)
    cycles = scans = checkpoints = 0
    differences: list[Difference] = []
    checkpoints_ok = True
    for event in recording.events():
        if isinstance(event, Scan):
            image.update(event)
            scans += 1
        elif isinstance(event, RecordedMemory):
            recorded = _memory(event)
            if cycles == 0:
                memory = recorded
            elif config_override is None:
                checkpoints_ok = checkpoints_ok and digest(recorded) == digest(memory)
            checkpoints += 1
        elif isinstance(event, RecordedCycle):
            cycles += 1
            snapshot = image.freeze(*_moment(event))
            inputs = _inputs(event, snapshot)
            decision, memory, _ = decide(site, memory, inputs)
            found = digest(decision)
            if found != event.decision:
                commands = tuple(f"{c.point}={c.value!r}" for c in decision.commands)
                differences.append(Difference(inputs.cycle, event.decision, found, commands))
    return ReplayReport(cycles, scans, tuple(differences), checkpoints, checkpoints_ok)


def _moment(event: RecordedCycle) -> tuple[int, float]:
    try:
        return int(event.inputs["now_ms"]), decode(float, event.inputs["now_s"])
    except BAD_LINE as error:
        raise RecordingError(f"a cycle without its moment: {error!r}") from error


def _inputs(event: RecordedCycle, snapshot: Snapshot) -> CycleInput:
    try:
        return CycleInput.from_json(event.inputs, snapshot)
    except BAD_LINE as error:
        raise RecordingError(f"a cycle whose inputs cannot be read: {error!r}") from error


def _memory(event: RecordedMemory) -> Memory:
    try:
        memory = decode(Memory, event.memory)
    except BAD_LINE as error:
        raise RecordingError(f"a checkpoint that cannot be read: {error!r}") from error
    if not isinstance(memory, Memory):
        raise RecordingError("a checkpoint that is no memory")
    return memory


def to_text(report: ReplayReport) -> str:
    """One JSON document of a report."""
    return json.dumps(
        {
            "same": report.same,
            "cycles": report.cycles,
            "scans": report.scans,
            "checkpoints": report.checkpoints,
            "differences": [
                {"cycle": d.cycle, "commands": list(d.commands)} for d in report.differences[:20]
            ],
        }
    )
