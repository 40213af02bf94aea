"""Which rows of a profile's tables a device has, by walking it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from drivers.finding.walking import Oid, Walks
from drivers.profile import Profile, SnmpWhere, Table, Variables
from drivers.profile.binding import SnmpAt
from drivers.profile.codec import Answer, text_of
from drivers.profile.rows import RowName, key_in, name_of
from facility.points import Flaw

#: how often a walk that had to stop is gone on with
MOST_PIECES: Final = 8


async def find_rows(profile: Profile, wire: object) -> dict[str, tuple[RowName, ...]]:
    """Rows per table, of the tables that can be walked; none from a wire that walks nothing."""
    found: dict[str, tuple[RowName, ...]] = {}
    if not isinstance(wire, Walks):
        return found
    for name, table in profile.tables.items():
        column = _column(table.walk, table.variable, profile.variables)
        if column is None:
            continue
        told = await _told(wire, column)
        if told is None:
            continue
        pairs = told.items()
        rows: Iterator[RowName]
        if table.walk is not None:
            index = table.walk.index
            rows = (
                name_of(key)
                for oid, answer in pairs
                if not _is_absent(answer, table)
                and (key := key_in(oid[len(column) :], index)) is not None
            )
        else:
            rows = _named(table.variable or "", column, tuple(told.values()))
        found[name] = tuple(dict.fromkeys(rows))[: table.most]
    return found


async def _told(wire: Walks, column: Oid) -> dict[Oid, Answer] | None:
    """What stands in a column; None where the agent never answered.

    A walk that had to stop is gone on with: rows that it did not come to would be missing for good.
    """
    walked = await wire.walk(column)
    if walked.silent:
        return None
    told = dict(zip(walked.names, walked.answers, strict=True))
    for _ in range(MOST_PIECES):
        if not (walked.why and walked.names):
            break
        walked = await wire.walk(column, walked.names[-1])
        told.update(zip(walked.names, walked.answers, strict=True))
    return told


def _column(
    walk: SnmpWhere | None, variable: str | None, variables: Variables | None
) -> tuple[int, ...] | None:
    if walk is not None:
        return walk.oid
    return variables.names if variable is not None and variables is not None else None


def _is_absent(answer: Answer, table: Table) -> bool:
    """Whether the walked column itself says that there is no such row."""
    if isinstance(answer, Flaw):
        return answer is Flaw.REFUSED
    shown = answer.decode("utf-8", "replace").strip() if isinstance(answer, bytes) else answer
    return shown in table.absent or (bool(table.present) and shown not in table.present)


def _named(pattern: str, column: tuple[int, ...], answers: object) -> Iterator[RowName]:
    """Numbers in the place of the `*` of a variable's name."""
    before, _, after = pattern.partition("*")
    shape = re.compile(re.escape(before) + r"([0-9]{1,4})" + re.escape(after))
    at = SnmpAt(SnmpWhere(oid=column, syntax="octets"), column)
    assert isinstance(answers, tuple | list)
    for answer in answers:
        matched = shape.fullmatch(text_of(answer, at) or "")
        if matched is not None:
            yield int(matched[1])
