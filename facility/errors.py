"""Errors that people have to act on: wrong configuration, and nothing else.

What a plant does every day (timeouts, refusals, missing data) is a value, not an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a file: where, what, and what to do about it.

    Attributes:
        file: name as given by the user.
        line, column: 1-based; 0 when the fault has no place (a file that cannot be read).
        path: dotted path of the key, e.g. `power.racks.r01.feeds.b`.
        problem: what is wrong.
        hint: what to write instead, or None.
    """

    file: str
    line: int
    column: int
    path: str
    problem: str
    hint: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        where = f"{self.file}:{self.line}:{self.column}"
        return (
            f"{where}: {self.path}: {self.problem}{hint}"
            if self.path
            else (f"{where}: {self.problem}{hint}")
        )


class ConfigError(Exception):
    """A file with faults; carries all of them, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))
