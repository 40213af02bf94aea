"""CSV tables of a hall: one file per section, one row per entry, columns named as the file's keys.

    elements.csv   name,kind,fed_by,rating,rating.current,rating.voltage_ll,continuous
    racks.csv      name,feeds.a,feeds.b,rating,overhead

A dot reaches into a key (`feeds.a`, `measures.rack`). Lists are separated by `|`
(`fed_by: bus-a|bus-b`, `rating: 500 kVA|450 kW`, `overload: 110 % for 600 s|125 % for 60 s`).
An empty cell states nothing. What a cell means is judged where facility files are judged.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from api.importing.entries import NAME, SECTIONS, Entry, Value
from facility.errors import ConfigError, Problem

#: File name of each section's table.
TABLES: Final = {f"{section[-1]}.csv": section for section in SECTIONS}
MAX_BYTES: Final = 8 * 1024 * 1024
LONGEST_NUMBER: Final = 40

_LISTS: Final = frozenset({"fed_by", "members"})
_NUMBERS: Final = re.compile(
    r"gpus|modules|needs|power_factor|worth|rating\.phases|curve\.n|split\.\w+|phases\.\w+\.L[123]"
    r"|space\.(units|units_used|ports|ports_used)"
)
#: As facility files write numbers: Python would read 1_0 and digits of other scripts too.
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


def read_tables(folder: Path) -> list[Entry]:
    """Everything in the tables of a folder.

    Raises:
        ConfigError: every fault of every table, with file, line and column.
    """
    entries: list[Entry] = []
    problems: list[Problem] = []
    names = [name for name in TABLES if (folder / name).is_file()]
    if not names:
        known = ", ".join(TABLES)
        raise ConfigError([Problem(str(folder), 0, 0, "", f"holds none of {known}")])
    for name in names:
        try:
            entries += _table(folder / name, TABLES[name])
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return entries


def _table(path: Path, section: tuple[str, ...]) -> list[Entry]:
    file = str(path)
    rows = _rows(path)
    header_line, header = next(rows, (1, []))
    columns = [cell.strip() for cell in header]
    problems = list(_header_faults(file, header_line, columns))
    if problems:
        raise ConfigError(problems)
    entries: dict[str, Entry] = {}
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(columns):
            told = f"{len(row)} cells under {len(columns)} columns"
            problems.append(Problem(file, line, 1, "", told))
            continue
        cells = {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
        name = cells.pop("name")
        at = columns.index("name") + 1
        if NAME.fullmatch(name) is None:
            told = f"{name!r} is no name; letters, digits, _ . - are allowed, 64 at most"
            problems.append(Problem(file, line, at, "name", told))
        elif name in entries:
            told = f"{name} stands in line {entries[name].line} already"
            problems.append(Problem(file, line, at, "name", told))
        else:
            try:
                body = _body(cells)
            except _CellError as fault:
                column = columns.index(fault.column) + 1
                problems.append(Problem(file, line, column, fault.column, fault.words))
            else:
                entries[name] = Entry(section, name, body, name, file, line)
    if problems:
        raise ConfigError(problems)
    return list(entries.values())


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which each begins."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError([Problem(file, 0, 0, "", f"is larger than {MAX_BYTES} bytes")])
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(file, 0, 0, "", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError([Problem(file, line, 1, "", "is not UTF-8")]) from error
    first = text.partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=";" if ";" in first and "," not in first else ",",
        strict=True,
    )
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ConfigError([Problem(file, line, 1, "", f"is no CSV: {error}")]) from error
        yield line, row
        line = reader.line_num + 1


def _header_faults(file: str, line: int, columns: list[str]) -> Iterator[Problem]:
    if "name" not in columns:
        yield Problem(file, line, 1, "", "needs a column 'name' in its first line")
    for i, column in enumerate(columns):
        if not re.fullmatch(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*", column):
            yield Problem(file, line, i + 1, column, f"{column!r} is no key of a facility file")
        elif column in columns[:i]:
            yield Problem(file, line, i + 1, column, f"column {column} stands here twice")


class _CellError(Exception):
    def __init__(self, column: str, words: str) -> None:
        super().__init__(words)
        self.column, self.words = column, words


def _body(cells: dict[str, str]) -> dict[str, Value]:
    body: dict[str, Any] = {}
    for column, text in cells.items():
        if not text:
            continue
        *path, last = column.split(".")
        inside = body
        for step in path:
            inside = inside.setdefault(step, {})
            if not isinstance(inside, dict):
                raise _CellError(column, f"this row states {'.'.join(path)} as well")
        if last in inside:
            raise _CellError(column, f"this row states {column}.… as well")
        inside[last] = _value(column, text)
    return body


def _value(column: str, text: str) -> Value:
    if column in _LISTS:
        return [part.strip() for part in text.split("|")]
    if column == "overload":
        return [_overload(part) for part in text.split("|")]
    if column == "rating" and "|" in text:
        return [part.strip() for part in text.split("|")]
    if _NUMBERS.fullmatch(column):
        if len(text) > LONGEST_NUMBER or _NUMBER.fullmatch(text) is None:
            raise _CellError(column, f"{text[:LONGEST_NUMBER]!r} is no number")
        return float(text) if "." in text else int(text)
    return text


def _overload(part: str) -> list[Value]:
    share, found, time = part.partition(" for ")
    if not found:
        raise _CellError("overload", f"{part.strip()!r}; write it like 110 % for 600 s")
    return [share.strip(), time.strip()]
