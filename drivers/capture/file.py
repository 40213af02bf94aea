"""The file of a capture: JSON, which is strict YAML too.

It holds places that a profile names and nothing else of the device.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivers.finding.recognising import Claim
from drivers.profile import Series
from drivers.profile.binding import (
    At,
    DsxAt,
    ModbusAt,
    MqttAt,
    NamedAt,
    Places,
    PrometheusAt,
    Row,
    SnmpAt,
)
from drivers.profile.codec import Answer, Decoded, Raw
from drivers.profile.rows import RowName
from drivers.prometheus.series import Reader
from facility.points import Flaw, Grade, PointSpec, flaw_of, grade_of
from facility.yamltree import read_tree


@dataclass(frozen=True)
class Page:
    """The lines of a page of Prometheus text that a profile reads.

    Attributes:
        at_ms: UTC ms when it was read, for samples that carry a time.
        open_metrics: such times are in seconds.
    """

    lines: tuple[str, ...]
    at_ms: int
    open_metrics: bool = False


@dataclass(frozen=True)
class Capture:
    """One recorded look.

    Attributes:
        rows: rows per table of the profile, as they were found and are called.
        raws: place -> raw; a flaw's name in capitals where the device had nothing.
        readings: `part:kind` -> value in canonical units, or the name of the flaw.
        identity: vendor, model and firmware, as far as the device tells them.
        claim: what the device says to `match`; None where it was not asked, or is not told.
        page: takes the place of `raws` where a page was read.
    """

    profile: str
    rows: Mapping[str, tuple[RowName, ...]]
    raws: Mapping[str, Any]
    readings: Mapping[str, float | str]
    identity: Mapping[str, str] = field(default_factory=dict)
    claim: Claim | None = None
    page: Page | None = None

    def answers(self, places: Places) -> Sequence[Answer]:
        """What was recorded at some places, in their order."""
        if self.page is None:
            return tuple(self.answer(at) for at in places.at)
        text = "".join(f"{line}\n" for line in self.page.lines).encode()
        return Reader(places).answers(text, self.page.at_ms, open_metrics=self.page.open_metrics)

    def answer(self, at: At) -> Answer:
        """The recorded raw at a place; REFUSED where nothing was recorded."""
        raw = self.raws.get(place_name(at), Flaw.REFUSED.name)
        if isinstance(raw, str) and raw in Flaw.__members__:
            return Flaw[raw]
        if isinstance(at, ModbusAt):
            return tuple(int(word) for word in raw)
        if isinstance(at, MqttAt):
            scalar: Raw = raw
            return scalar
        if isinstance(at, PrometheusAt):
            return raw if isinstance(raw, str) else float(raw)
        return raw.encode() if isinstance(raw, str) else int(raw)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        content: dict[str, Any] = {
            "profile": self.profile,
            "rows": {name: list(rows) for name, rows in self.rows.items()},
            "raws": dict(self.raws),
            "readings": dict(self.readings),
        }
        if self.identity:
            content["identity"] = dict(self.identity)
        if self.claim is not None:
            content["claim"] = _claim_told(self.claim)
        if self.page is not None:
            content["page"] = {
                "lines": list(self.page.lines),
                "at_ms": self.page.at_ms,
                "open_metrics": self.page.open_metrics,
            }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise


def read_capture(path: Path) -> Capture:
    """Read a capture.

    Raises:
        ConfigError: not strict YAML or JSON.
        KeyError: one of the first four parts is missing.
    """
    tree, _ = read_tree(str(path))
    content: Any = tree.plain()
    claim, page = content.get("claim"), content.get("page")
    return Capture(
        content["profile"],
        content["rows"],
        content["raws"],
        content["readings"],
        content.get("identity", {}),
        None if claim is None else _claim_of(claim),
        None if page is None else Page(tuple(page["lines"]), page["at_ms"], page["open_metrics"]),
    )


def _claim_told(claim: Claim) -> dict[str, Any]:
    return {
        "object_id": _dotted(claim.object_id),
        "description": claim.description,
        "has": {_dotted(oid): there for oid, there in claim.has.items()},
        "firmware": dict(claim.firmware),
    }


def _claim_of(told: Mapping[str, Any]) -> Claim:
    return Claim(
        _arcs(told["object_id"]),
        told["description"],
        {_arcs(oid): there for oid, there in told["has"].items()},
        told["firmware"],
    )


def _dotted(oid: Sequence[int]) -> str:
    return ".".join(str(arc) for arc in oid)


def _arcs(text: str) -> tuple[int, ...]:
    return tuple(int(arc) for arc in text.split(".") if arc)


def place_name(at: At) -> str:
    """A place as text: `1.3.6.1.2.1.1.1.0`, `input 100 x 2`, or topic and JSON path."""
    if isinstance(at, NamedAt):
        return f"{_dotted(at.oid)} {at.names[0]}"
    if isinstance(at, SnmpAt):
        return _dotted(at.oid)
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
