"""docs/field-faults.md names all 43 cases, and tests that exist and say which case they are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CASES = range(1, 44)
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
#: "Case 7", "Cases 7 and 10"
CASE = re.compile(r"\bCases? (\d+(?:(?:, | and | to )\d+)*)")


@cache
def docstrings(path: Path) -> dict[str, str]:
    """Of each test in a file."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def cases(docstring: str) -> set[int]:
    return {int(n) for found in CASE.findall(docstring) for n in re.findall(r"\d+", found)}


@pytest.fixture(scope="module")
def rows(root: Path) -> dict[int, list[tuple[str, str]]]:
    """Case -> the tests that the page names."""
    found = ROW.findall((root / "docs" / "field-faults.md").read_text("utf-8"))
    assert len(found) == len(CASES)
    return {int(case): NAMED.findall(tests) for case, tests in found}


def test_every_case_is_on_the_page_once(rows: dict[int, list[tuple[str, str]]]) -> None:
    assert list(rows) == list(CASES)
    assert all(rows.values())


@pytest.mark.parametrize("case", CASES)
def test_the_tests_of_a_case_exist_and_name_it(
    root: Path, rows: dict[int, list[tuple[str, str]]], case: int
) -> None:
    for file, name in rows[case]:
        told = docstrings(root / file)
        assert name in told, f"{file} has no {name}"
        assert case in cases(told[name]), f"{name} does not say that it is case {case}"


def test_what_is_written_in_no_other_shape_is_a_test(root: Path) -> None:
    """A path that the pattern does not know would be a test that nobody looks for."""
    text = (root / "docs" / "field-faults.md").read_text("utf-8")
    assert len(NAMED.findall(text)) == text.count("tests/")
    assert "docs/field-faults.md" in (root / "README.md").read_text("utf-8")
