"""docs/operating.md tells of every alarm that the code can raise, and whether it pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from api.cli import app

CODE = ("controllers", "api", "drivers", "facility")


def strings(node: ast.AST) -> set[str]:
    """The results that an expression of literals can have: not those of its conditions."""
    if isinstance(node, ast.IfExp):
        return strings(node.body) | strings(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def pages(call: ast.Call) -> str:
    page = next((word.value for word in call.keywords if word.arg == "page"), None)
    if page is None:
        return "no"
    return "yes" if isinstance(page, ast.Constant) and page.value is True else "if"


def raised(root: Path) -> Iterator[tuple[str, str]]:
    """(kind, whether it pages) of every `Condition(…)` in the code."""
    for folder in CODE:
        for file in (root / folder).rglob("*.py"):
            tree = ast.parse(file.read_text("utf-8"))
            named: dict[str, set[str]] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    named.setdefault(node.targets[0].id, set()).update(strings(node.value))
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                if node.func.id == "Condition":
                    first = node.args[0]
                    kinds = named[first.id] if isinstance(first, ast.Name) else strings(first)
                    assert kinds, f"{file}:{node.lineno}: what kind is it?"
                    yield from ((kind, pages(node)) for kind in kinds)


@pytest.fixture(scope="module")
def guide(root: Path) -> str:
    return (root / "docs" / "operating.md").read_text("utf-8")


@pytest.fixture(scope="module")
def told(guide: str) -> dict[str, str]:
    """Kind -> the column "pages"."""
    return dict(
        re.findall(
            r"^\| `([a-z_]+)` \| (yes|no|if confirmed|if over a limit) \|", guide, re.MULTILINE
        )
    )


def test_every_alarm_is_explained_and_no_other(root: Path, told: dict[str, str]) -> None:
    assert set(told) == {kind for kind, _ in raised(root)}
    assert len(told) > 20


def test_the_guide_knows_what_pages(root: Path, told: dict[str, str]) -> None:
    found: dict[str, set[str]] = {}
    for kind, page in raised(root):
        found.setdefault(kind, set()).add(page)
    for kind, how in found.items():
        if how == {"no"}:
            assert told[kind] == "no", kind
        elif kind == "leak":
            assert told[kind] == "if confirmed"
        elif kind == "hall_released":
            assert told[kind] == "if over a limit"
        else:
            assert told[kind] == "yes", kind


def test_every_command_it_names_exists(guide: str) -> None:
    lines = re.findall(r"(?:^    |`)wattkeeper ([^`\n]+)", guide, re.MULTILINE)
    assert len(lines) >= 8
    for line in lines:
        here = get_command(app)
        for word in line.split():
            if not isinstance(here, Group):
                break
            assert word in here.commands, line
            here = here.commands[word]


def test_every_link_leads_somewhere(root: Path, guide: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", guide)
    assert links
    for link in links:
        assert (root / "docs" / link).exists(), link
    assert "docs/operating.md" in (root / "README.md").read_text("utf-8")
