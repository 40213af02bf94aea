"""A recorded run: one file, one JSON document a line, from which every decision can be redone.

Lines: `start` (program version and the shape of its memory, facility text and its sha256,
layouts), `scan` (one look), `cycle` (what the cycle
was given besides the image, and the digest of what it decided), `memory` (checkpoint, each hour).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, cast

import numpy as np

from facility.exact import decode, decode_array, encode
from facility.points import Layout, PointId, PointSpec, PointTable, Scan

FORMAT: Final = 2
CHECKPOINT_MS: Final = 3_600_000


class RecordingError(Exception):
    """A file that is no recording, a damaged one, or one of another version."""


def program_version() -> str:
    """The version of Wattkeeper that runs, "unknown" where it is not installed."""
    try:
        return version("wattkeeper")
    except PackageNotFoundError:
        return "unknown"


def _layout_data(layout: Layout) -> dict[str, Any]:
    return {
        "device": layout.device,
        "poll_class": layout.poll_class,
        "points": [encode(spec) for spec in layout.points],
    }


def _layout(data: Mapping[str, Any]) -> Layout:
    points = tuple(_spec(p) for p in data["points"])
    return Layout(data["device"], data["poll_class"], points)


def _spec(data: Mapping[str, Any]) -> PointSpec:
    plain = dict(data)
    plain["id"] = PointId(*data["id"])
    plain["states"] = tuple((int(code), str(name)) for code, name in data["states"])
    plain["low"], plain["high"] = float(data["low"]), float(data["high"])
    plain["stale_after_s"] = float(data["stale_after_s"])
    watchdog_s = data.get("watchdog_s")
    plain["watchdog_s"] = None if watchdog_s is None else float(watchdog_s)
    return PointSpec(**plain)


def _open(path: Path, mode: Literal["r", "w"]) -> IO[str]:
    if path.suffix == ".gz":
        return cast("IO[str]", gzip.open(path, mode + "t", encoding="utf-8"))
    return path.open(mode, encoding="utf-8")


class Recorder:
    """Appends to one file; `.gz` in its name compresses it. Not thread-safe: one loop writes."""

    def __init__(
        self,
        path: Path,
        facility_text: str,
        table: PointTable,
        *,
        shape: str,
        simulated: bool = False,
    ) -> None:
        """Start a file.

        Args:
            path: of the file; one that is there is overwritten.
            facility_text: as read.
            table: of the points whose scans follow.
            shape: digest of the fields of memory and inputs (`facility.exact.shape`): who has
                others cannot read them.
            simulated: the facility was completed for a simulation.
        """
        self._file = _open(path, "w")
        self._numbers = {layout.key: i for i, layout in enumerate(table.layouts)}
        self._checkpoint_ms: int | None = None
        self._write(
            {
                "line": "start",
                "format": FORMAT,
                "version": program_version(),
                "shape": shape,
                "facility": facility_text,
                "simulated": simulated,
                "sha256": hashlib.sha256(facility_text.encode()).hexdigest(),
                "layouts": [_layout_data(layout) for layout in table.layouts],
            }
        )

    def _write(self, document: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n")

    def scan(self, scan: Scan) -> None:
        """One look, in the order in which the image took it."""
        self._write(
            {
                "line": "scan",
                "layout": self._numbers[scan.layout.key],
                "values": encode(scan.values),
                "quality": encode(scan.quality),
                "source_ms": scan.source_ms,
                "received_ms": scan.received_ms,
                "monotonic_s": encode(scan.monotonic_s),
            }
        )

    def cycle(self, inputs: Mapping[str, Any], decision_digest: str) -> None:
        """What one cycle was given besides the image, and what it decided."""
        self._write({"line": "cycle", "inputs": encode(inputs), "decision": decision_digest})

    def memory_due(self, now_ms: int) -> bool:
        """Whether an hour has passed since the last checkpoint (true at the start)."""
        return self._checkpoint_ms is None or now_ms - self._checkpoint_ms >= CHECKPOINT_MS

    def memory(self, now_ms: int, memory: Any) -> None:
        """A checkpoint of the controllers' memory before the next cycle."""
        self._checkpoint_ms = now_ms
        self._write({"line": "memory", "now_ms": now_ms, "memory": encode(memory)})

    def close(self) -> None:
        """Flush and close."""
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class RecordedCycle:
    """One cycle as recorded."""

    inputs: Mapping[str, Any]
    decision: str


@dataclass(frozen=True)
class RecordedMemory:
    """One checkpoint as recorded."""

    now_ms: int
    memory: Mapping[str, Any]


@dataclass(frozen=True)
class Recording:
    """A recording's start; `events()` reads the rest in order."""

    path: Path
    facility_text: str
    sha256: str
    table: PointTable
    simulated: bool = False
    version: str = "unknown"
    shape: str = ""

    def must_have(self, shape: str) -> None:
        """Refuse to be read by a program whose memory or inputs have other fields.

        Raises:
            RecordingError: they have.
        """
        if shape != self.shape:
            raise _of_another_version(self.path, self.version)

    def events(self) -> Iterator[Scan | RecordedCycle | RecordedMemory]:
        """Scans, cycles and checkpoints in the order of the run.

        Raises:
            RecordingError: a damaged line; a last line cut short by a crash just ends the run.
        """
        lines = _lines(self.path)
        next(lines)
        for number, document in enumerate(lines, start=2):
            try:
                yield self._event(document)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise RecordingError(f"{self.path}:{number}: {error}") from error

    def _event(self, document: Mapping[str, Any]) -> Scan | RecordedCycle | RecordedMemory:
        kind = document["line"]
        if kind == "scan":
            return Scan(
                self.table.layouts[document["layout"]],
                decode_array(document["values"]).astype(np.float64),
                decode_array(document["quality"]).astype(np.uint8),
                int(document["source_ms"]),
                int(document["received_ms"]),
                decode(float, document["monotonic_s"]),
            )
        if kind == "cycle":
            return RecordedCycle(document["inputs"], document["decision"])
        if kind == "memory":
            return RecordedMemory(int(document["now_ms"]), document["memory"])
        raise ValueError(f"no such line: {kind!r}")


#: characters of a line at most: a million points take a fifth of it
MAX_LINE: Final = 64 * 1024 * 1024


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with _open(path, "r") as file:
        lines = iter(lambda: file.readline(MAX_LINE), "")
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                if len(line) == MAX_LINE:
                    raise RecordingError(f"{path}:{number}: a line longer than {MAX_LINE}")
                return
            try:
                document = json.loads(line)
            except ValueError as error:
                raise RecordingError(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(document, dict):
                raise RecordingError(f"{path}:{number}: not an object")
            yield document


def _of_another_version(path: Path, recorded: str) -> RecordingError:
    return RecordingError(
        f"{path}: recorded by another version of Wattkeeper ({recorded}, this is"
        f" {program_version()}), which remembers other things; replay it with that version"
    )


def read_recording(path: Path) -> Recording:
    """Open a recording.

    Raises:
        RecordingError: not a recording, one of another version's format, or a facility text that
            was changed.
        OSError: the file cannot be read.
    """
    first = next(_lines(path), None)
    if first is None or first.get("line") != "start":
        raise RecordingError(f"{path}: not a recording")
    recorded = str(first.get("version", "unknown"))
    if first.get("format") != FORMAT:
        raise _of_another_version(path, recorded)
    text = str(first.get("facility", ""))
    if hashlib.sha256(text.encode()).hexdigest() != first.get("sha256"):
        raise RecordingError(f"{path}: the facility text is not the one recorded")
    try:
        table = PointTable.of(_layout(item) for item in first["layouts"])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}:1: {error}") from error
    return Recording(
        path,
        text,
        str(first["sha256"]),
        table,
        simulated=first.get("simulated") is True,
        version=recorded,
        shape=str(first.get("shape", "")),
    )
