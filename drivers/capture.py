"""Captures: what a device answered at the places that its profile names, and what that means.

`wattkeeper poll --record FILE` writes one; a file in tests/captures is a test by being there.
Only places of points are recorded, never identity texts, so serials and names cannot slip in.
The file is JSON, which is strict YAML too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.profile import Series
from drivers.profile.binding import At, DsxAt, ModbusAt, NamedAt, PrometheusAt, Row, SnmpAt
from drivers.profile.codec import Answer, Decoded, Raw
from drivers.profile.rows import RowName
from facility.points import Flaw, Grade, PointSpec, flaw_of, grade_of
from facility.yamltree import read_tree


@dataclass(frozen=True)
class Capture:
    """One recorded look.

    Attributes:
        rows: rows per table of the profile, as they were found and are called.
        raws: place -> raw; a flaw's name in capitals where the device had nothing.
        readings: `part:kind` -> value in canonical units, or the name of the flaw.
    """

    profile: str
    rows: Mapping[str, tuple[RowName, ...]]
    raws: Mapping[str, Any]
    readings: Mapping[str, float | str]

    def answer(self, at: At) -> Answer:
        """The recorded raw at a place; REFUSED where nothing was recorded."""
        raw = self.raws.get(place_name(at), Flaw.REFUSED.name)
        if isinstance(raw, str) and raw in Flaw.__members__:
            return Flaw[raw]
        if isinstance(at, ModbusAt):
            return tuple(int(word) for word in raw)
        if isinstance(at, PrometheusAt):
            return raw if isinstance(raw, str) else float(raw)
        return raw.encode() if isinstance(raw, str) else int(raw)

    def write(self, path: Path) -> None:
        """Write the file.

        Raises:
            OSError: it cannot be written.
        """
        content = {
            "profile": self.profile,
            "rows": {name: list(rows) for name, rows in self.rows.items()},
            "raws": dict(self.raws),
            "readings": dict(self.readings),
        }
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_capture(path: Path) -> Capture:
    """Read a capture.

    Raises:
        ConfigError: not strict YAML or JSON.
        KeyError: one of the four parts is missing.
    """
    tree, _ = read_tree(str(path))
    content: Any = tree.plain()
    return Capture(content["profile"], content["rows"], content["raws"], content["readings"])


def place_name(at: At) -> str:
    """A place as text: `1.3.6.1.2.1.1.1.0`, `input 100 x 2`, or topic and JSON path."""
    if isinstance(at, NamedAt):
        return ".".join(str(arc) for arc in at.oid) + f" {at.names[0]}"
    if isinstance(at, SnmpAt):
        return ".".join(str(arc) for arc in at.oid)
    if isinstance(at, ModbusAt):
        return f"{at.where.function} {at.address} x {at.count}"
    if isinstance(at, PrometheusAt):
        names = " | ".join(_series_name(series) for series in at.where.any_of)
        return names if at.row is None else f"{names} [{at.where.row}={at.row}]"
    if isinstance(at, DsxAt):
        phase = () if at.where.phase is None else (at.where.phase,)
        return "/".join((at.where.object, at.where.point, *at.where.area, *phase))
    steps = (step.name if isinstance(step, Row) else str(step) for step in at.path)
    return "/".join((at.topic, *steps))


def _series_name(series: Series) -> str:
    labels = ",".join(f"{name}={'|'.join(wanted)}" for name, wanted in series.labels)
    return f"{series.metric}{{{labels}}}" if labels else series.metric


def shown_answer(answer: Answer) -> Any:
    """An answer as a capture holds it."""
    if isinstance(answer, Flaw):
        return answer.name
    raw: Raw = answer
    if isinstance(raw, tuple):
        return list(raw)
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw


def shown_reading(decoded: Decoded) -> float | str:
    """A reading as a capture holds it: the value, or the flaw's name."""
    if grade_of(decoded.quality) is Grade.BAD:
        return flaw_of(decoded.quality).name
    return decoded.value


def reading_name(spec: PointSpec) -> str:
    """`part:kind`."""
    return f"{spec.id.part}:{spec.id.kind}"
