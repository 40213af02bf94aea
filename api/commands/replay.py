"""`wattkeeper replay FILE`: recompute recorded decisions and compare them bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from api.commands.refusing import refuse_words
from controllers.replaying import ReplayReport, replay, to_text
from facility.completing import complete_for_simulation
from facility.config import Facility
from facility.errors import ConfigError
from facility.loading import load_text
from facility.recording import Recording, RecordingError, read_recording


def run(file: str, with_: str | None, *, json: bool) -> int:
    """Replay; 0 when every decision comes out equal, 1 when not or the file is damaged."""
    try:
        recording = read_recording(Path(file))
        override = None if with_ is None else Path(with_).read_text("utf-8")
        report = replay(recording, loader(recording), override)
    except (RecordingError, ConfigError, OSError, UnicodeDecodeError) as error:
        words = f"{file}: not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        return refuse_words(words, json=json)
    typer.echo(to_text(report) if json else sentence(report))
    return 0 if report.same else 1


def loader(recording: Recording) -> Callable[[str], Facility]:
    """How to read the recorded facility: completed, where a simulation had completed it."""

    def load(text: str) -> Facility:
        facility = load_text(text, "recording").facility
        return complete_for_simulation(facility) if recording.simulated else facility

    return load


def sentence(report: ReplayReport) -> str:
    """The report for people."""
    same = "all equal" if report.same else f"{len(report.differences)} differ"
    lines = [f"{report.cycles} decisions over {report.scans} scans recomputed: {same}"]
    lines += [
        f"cycle {d.cycle}: {', '.join(d.commands) or 'no command'}" for d in report.differences[:10]
    ]
    return "\n".join(lines)
