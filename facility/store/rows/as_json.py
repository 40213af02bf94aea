"""Decisions, acks and alarm events as JSON, and back to equal objects.

Infinite bounds are written as Python's JSON writes them (`Infinity`); the text never leaves
Wattkeeper's own files and tables.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from facility.commands import (
    Ack,
    AlarmEvent,
    Bounds,
    Command,
    Decision,
    InRows,
    Outcome,
    Rank,
    Setpoint,
    Severity,
    setpoint_row,
)
from facility.points import PointId

Json = dict[str, Any]
#: Mappings of so few names are taken apart when they are packed; of others so many items are one
#: piece.
FEW, PIECE = 32, 2000


def dumps(body: Any) -> str:
    """Compact JSON text.

    Raises:
        TypeError: something in it has no JSON form.
    """
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=_as_dict)


def _as_dict(value: Any) -> Json:
    """A mapping that is no dict, as one; only then is what it keeps for later worked out."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _in_pieces(value: Any) -> Iterator[str]:
    """`dumps` of a value, piece by piece, so that other threads get a turn between them.

    Nothing else runs in Python while one call writes ten megabytes.
    """
    if not isinstance(value, Mapping | list) or not value:
        yield dumps(value)
        return
    left, right = "[]" if isinstance(value, list) else "{}"
    if isinstance(value, Mapping) and len(value) <= FEW:
        for i, (name, below) in enumerate(value.items()):
            yield f"{',' if i else left}{dumps(str(name))}:"
            yield from _in_pieces(below)
    else:
        items = iter(value if isinstance(value, list) else value.items())
        kind, separator = (list, left) if isinstance(value, list) else (dict, left)
        while piece := kind(islice(items, PIECE)):
            yield f"{separator}{dumps(piece)[1:-1]}"
            separator = ","
    yield right


def loads(text: str | bytes) -> Json:
    """The object that `dumps` wrote."""
    body: Json = json.loads(text)
    return body


def packed(body: Mapping[str, Any]) -> bytes:
    """Deflated JSON for columns of bytes."""
    return zlib.compress("".join(_in_pieces(body)).encode(), 1)


def unpacked(data: bytes) -> Json:
    """The object that `packed` wrote."""
    return loads(zlib.decompress(data))


def command_to_json(command: Command) -> Json:
    """A command as a JSON object."""
    return {
        "point": str(command.point),
        "value": command.value,
        "sequence": command.sequence,
        "epoch": command.epoch,
        "issued_ms": command.issued_ms,
        "deadline_s": command.deadline_s,
        "because": command.because,
        "raises": command.raises,
    }


def command_from_json(body: Mapping[str, Any]) -> Command:
    """The command of a JSON object."""
    return Command(**{**body, "point": PointId.parse(body["point"])})


def ack_to_json(ack: Ack) -> Json:
    """An ack as a JSON object."""
    return {
        "command": command_to_json(ack.command),
        "outcome": ack.outcome.value,
        "actual": ack.actual,
        "detail": ack.detail,
        "at_ms": ack.at_ms,
    }


def ack_from_json(body: Mapping[str, Any]) -> Ack:
    """The ack of a JSON object."""
    return Ack(
        command_from_json(body["command"]),
        Outcome(body["outcome"]),
        body["actual"],
        body["detail"],
        body["at_ms"],
    )


def event_to_json(event: AlarmEvent) -> Json:
    """An alarm event as a JSON object."""
    return {
        "key": event.key,
        "kind": event.kind,
        "subject": event.subject,
        "severity": event.severity.name.lower(),
        "active": event.active,
        "text": event.text,
        "at_ms": event.at_ms,
        "page": event.page,
        "parent": event.parent,
        "numbers": dict(event.numbers),
    }


def event_from_json(body: Mapping[str, Any]) -> AlarmEvent:
    """The alarm event of a JSON object."""
    return AlarmEvent(**{**body, "severity": Severity[body["severity"].upper()]})


def decision_to_json(decision: Decision) -> Json:
    """A decision as a JSON object."""
    return {
        "cycle": decision.cycle,
        "snapshot": decision.snapshot,
        "last_scan": decision.last_scan,
        "now_ms": decision.now_ms,
        "setpoints": _setpoint_rows(decision.setpoints),
        "commands": [command_to_json(c) for c in decision.commands],
        "withheld": [[str(point), value, why] for point, value, why in decision.withheld],
        "alarms": [event_to_json(a) for a in decision.alarms],
        "facts": decision.facts,
        "config_sha256": decision.config_sha256,
    }


def _setpoint_rows(setpoints: Sequence[Setpoint]) -> list[Any]:
    """Point, value, room, why, conflict and rank of each."""
    if isinstance(setpoints, InRows):
        return setpoints.rows()
    return [setpoint_row(s) for s in setpoints]


def decision_from_json(body: Mapping[str, Any]) -> Decision:
    """The decision of a JSON object; tuples inside `facts` come back as lists."""
    return Decision(
        cycle=body["cycle"],
        snapshot=body["snapshot"],
        last_scan=body["last_scan"],
        now_ms=body["now_ms"],
        setpoints=tuple(
            Setpoint(PointId.parse(point), value, Bounds(low, high), because, conflict, Rank(rank))
            for point, value, low, high, because, conflict, rank in body["setpoints"]
        ),
        commands=tuple(command_from_json(c) for c in body["commands"]),
        withheld=tuple((PointId.parse(p), value, why) for p, value, why in body["withheld"]),
        alarms=tuple(event_from_json(a) for a in body["alarms"]),
        facts=body["facts"],
        config_sha256=body["config_sha256"],
    )
