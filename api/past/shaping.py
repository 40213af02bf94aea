"""From series to JSON and CSV. What is unknown is null, or an empty cell; never 0."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from api.past.asking import cursor_of
from api.picture import iso, number
from facility.kinds import KINDS
from facility.points import FloatArray, grade_of
from facility.store.past import Answer
from facility.store.records import Series

_ROWS_AT_ONCE: Final = 500
#: What a spreadsheet would take for a formula: names come from a file that people wrote.
_FORMULA: Final = re.compile(r"^[=+\-@\t\r]")


def column(series: Series, name: str) -> FloatArray:
    """One aggregate of a series, NaN where it is unknown."""
    if name == "count":
        return series.count.astype(np.float64)
    arrays = {
        "mean": series.mean,
        "min": series.minimum,
        "max": series.maximum,
        "sum": series.total,
        "first": series.first,
        "last": series.last,
        "delta": series.delta,
    }
    return arrays[name]


def unit_of(series: Series, name: str) -> str:
    """The unit of an aggregate."""
    return "1" if name == "count" else KINDS[series.point.kind].unit


def _numbers(values: FloatArray) -> list[float | None]:
    return [number(value) for value in values.tolist()]


def _times(series: Series) -> list[str | None]:
    return [iso(at_ms) for at_ms in series.times_ms.tolist()]


def about(answer: Answer) -> dict[str, Any]:
    """What an answer covers, at which resolution, and where it goes on."""
    first = answer.series[0]
    return {
        "from": iso(first.from_ms),
        "to": iso(first.to_ms),
        "step_s": first.step_s,
        "resolution": first.resolution,
        "next": cursor_of(first, answer.next_ms),
    }


def one_as_json(answer: Answer, shown: Sequence[str]) -> dict[str, Any]:
    """One point, a member for each sample."""
    series = answer.series[0]
    names = ["at", *shown, "good_fraction"]
    columns = [
        _times(series),
        *(_numbers(column(series, name)) for name in shown),
        _numbers(series.good_fraction),
    ]
    samples = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    head = {"point": str(series.point), "unit": KINDS[series.point.kind].unit}
    return head | about(answer) | {"samples": samples}


def many_as_json(answer: Answer, shown: Sequence[str]) -> Iterator[str]:
    """Several points, an array for each aggregate, point by point."""
    head = json.dumps(about(answer))
    yield head[:-1] + ', "series": ['
    for i, series in enumerate(answer.series):
        body: dict[str, Any] = {
            "point": str(series.point),
            "unit": KINDS[series.point.kind].unit,
            "at": _times(series),
        }
        body |= {name: _numbers(column(series, name)) for name in shown}
        body["good_fraction"] = _numbers(series.good_fraction)
        yield (", " if i else "") + json.dumps(body)
    yield "]}"


class Table:
    """CSV, a page after the other; the header goes before the first.

    Buckets: a row for each bucket, and for each point its aggregates and good fraction. Raw
    samples of several points: a row for each sample, since each point has times of its own.

    Args:
        shown: aggregates.
        alone: whether it is about one point, whose name then stands in no header.
    """

    def __init__(self, shown: Sequence[str], *, alone: bool) -> None:
        self._shown = shown
        self._alone = alone
        self._line = io.StringIO()
        self._writer = csv.writer(self._line, lineterminator="\r\n")
        self._begun = False

    def page(self, answer: Answer) -> Iterator[str]:
        """The lines of a page, some hundred at a time."""
        if not self._begun:
            self._begun = True
            self._writer.writerow(self._header(answer))
        for i, row in enumerate(self._rows(answer)):
            self._writer.writerow(row)
            if i % _ROWS_AT_ONCE == 0:
                yield self._taken()
        yield self._taken()

    def _taken(self) -> str:
        text = self._line.getvalue()
        self._line.seek(0)
        self._line.truncate()
        return text

    def _header(self, answer: Answer) -> list[str]:
        first = answer.series[0]
        if self._alone:
            names = [f"{name} ({unit_of(first, name)})" for name in self._shown]
            return ["at", *names, "good_fraction", "quality", "resolution"]
        if first.step_s is None:
            return ["at", "point", "value", "unit", "quality"]
        names = []
        for series in answer.series:
            point = cell(str(series.point))
            names += [f"{point} {name} ({unit_of(series, name)})" for name in self._shown]
            names.append(f"{point} good_fraction")
        return ["at", *names, "resolution"]

    def _rows(self, answer: Answer) -> Iterator[Sequence[Any]]:
        first = answer.series[0]
        if self._alone:
            yield from self._of_one(first)
        elif first.step_s is None:
            for series in answer.series:
                point, unit = cell(str(series.point)), KINDS[series.point.kind].unit
                grades = _grades(series)
                for at, value, grade in zip(
                    _times(series), _numbers(series.mean), grades, strict=True
                ):
                    yield at, point, _blank(value), unit, grade
        else:
            columns: list[list[Any]] = [_times(first)]
            for series in answer.series:
                columns += [_cells(column(series, name)) for name in self._shown]
                columns.append(_cells(series.good_fraction))
            columns.append([first.resolution] * len(first))
            yield from zip(*columns, strict=True)

    def _of_one(self, series: Series) -> Iterator[Sequence[Any]]:
        columns: list[list[Any]] = [_times(series)]
        columns += [_cells(column(series, name)) for name in self._shown]
        columns += [_cells(series.good_fraction), _grades(series)]
        columns.append([series.resolution] * len(series))
        yield from zip(*columns, strict=True)


def _grades(series: Series) -> list[str]:
    if series.quality is None:
        return [""] * len(series)
    return [grade_of(packed).name.lower() for packed in series.quality.tolist()]


def _cells(values: FloatArray) -> list[Any]:
    return [_blank(number(value)) for value in values.tolist()]


def _blank(value: float | None) -> Any:
    return "" if value is None else value


def cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text
