"""Put imported lines into a facility file; everything that people wrote stays byte for byte.

Each section holds the lines of one source between two marks:

    # imported from csv into power.racks: begin
    r01: {feeds: {a: row1-a, b: row1-b}, rating: 32 kW}  # r01
    # imported from csv into power.racks: end

The comment at a line's end is the identity that the source gives the thing, so a second import
changes the lines whose source changed and nothing else. What a source no longer has stays, marked
`orphaned`, until it is pruned: racks do not vanish because somebody tidied a database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from api.importing.entries import SECTIONS, Entry, line_of
from facility.errors import ConfigError, Problem
from facility.yamltree import Tree, parse_tree

ORPHANED: Final = "orphaned "
_LINE: Final = re.compile(r'\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^\s:]+)): .*  # (?P<identity>.+)')


@dataclass(frozen=True)
class Merged:
    """A file with the source's lines in it.

    Attributes:
        text: the whole file.
        origins: line of `text` -> the entry that stands there.
        told: what people should know, one sentence each: renamed, gone, taken out.
    """

    text: str
    origins: dict[int, Entry]
    told: tuple[str, ...]


def merge(text: str, file: str, label: str, entries: Sequence[Entry], *, prune: bool) -> Merged:
    """The file with the present entries of one source.

    Args:
        text: the file as it is.
        file: its name, for faults.
        label: the source, e.g. `csv` or `netbox dcim.example`.
        entries: everything that the source has; names are unique within a section.
        prune: drop what the source no longer has.

    Raises:
        ConfigError: a section that is not written in lines, or marks that do not match.
    """
    # Lines keep their ends: a file from another system stays as it is.
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and lines[-1].splitlines()[0] == lines[-1]:
        lines[-1] += end
    told: list[str] = []
    placed: dict[str, Entry] = {}
    for section in SECTIONS:
        own = [entry for entry in entries if entry.section == section]
        block = _Block.found(lines, file, label, section)
        if block is None and not own:
            continue
        if block is None:
            lines, at, indent = _room(lines, file, section, end)
            block = _Block(at, at, indent, ())
        body, more = _body(block, own, prune=prune)
        told += more
        marks = _marks(label, section)
        pad = " " * block.indent
        new = [marks[0], *body, marks[1]] if body else []
        lines[block.begin : block.end] = [f"{pad}{line}{end}" for line in new]
        placed |= {f"{pad}{line_of(entry)}{end}": entry for entry in own}
    merged = "".join(lines)
    if merged == text + end:
        merged = text
    origins = {number: placed[line] for number, line in enumerate(lines, start=1) if line in placed}
    return Merged(merged, origins, tuple(told))


@dataclass(frozen=True)
class _Block:
    """Lines `begin` to `end` (0-based, end excluded), marks included."""

    begin: int
    end: int
    indent: int
    lines: tuple[str, ...]

    @classmethod
    def found(
        cls, lines: Sequence[str], file: str, label: str, section: tuple[str, ...]
    ) -> _Block | None:
        begin, end = _marks(label, section)
        at = [[i for i, line in enumerate(lines) if line.strip() == mark] for mark in (begin, end)]
        if not at[0] and not at[1]:
            return None
        if len(at[0]) != 1 or len(at[1]) != 1 or at[0][0] > at[1][0]:
            place = (at[0] or at[1])[0] + 1
            raise ConfigError(
                [Problem(file, place, 1, ".".join(section), f"'{begin}' needs one '{end}' below")]
            )
        first, last = at[0][0], at[1][0]
        indent = len(lines[first]) - len(lines[first].lstrip())
        inner = tuple(line.rstrip() for line in lines[first + 1 : last])
        return cls(first, last + 1, indent, inner)


def _marks(label: str, section: tuple[str, ...]) -> tuple[str, str]:
    mark = f"# imported from {label} into {'.'.join(section)}: "
    return mark + "begin", mark + "end"


def _body(block: _Block, own: Sequence[Entry], *, prune: bool) -> tuple[list[str], list[str]]:
    """The lines between the marks, and what to say of those that changed their name or went."""
    names = {entry.identity: entry.name for entry in own}
    kept, told = [], []
    for line in block.lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        identity = match["identity"].removeprefix(ORPHANED)
        name = match["quoted"] or match["name"]
        if identity in names:
            if names[identity] != name:
                told.append(f"{name} is now called {names[identity]} ({identity})")
        elif prune:
            told.append(f"{name} is gone from the source and was taken out ({identity})")
        elif name in names.values():
            told.append(f"{name} is gone from the source; another took its name ({identity})")
        else:
            told.append(f"{name} is gone from the source; it stays until --prune ({identity})")
            bare = line.strip().removesuffix(match["identity"])
            kept.append(f"{bare}{ORPHANED}{identity}")
    return [line_of(entry) for entry in own] + kept, told


def _room(
    lines: Sequence[str], file: str, section: tuple[str, ...], end: str
) -> tuple[list[str], int, int]:
    """Where the lines of a section go: lines with its keys in them, index, indentation."""
    made = list(lines)
    tree, problems = parse_tree("".join(made), file)
    if problems:
        raise ConfigError(problems)
    indent, above, at = 0, tree, len(made)
    for depth, key in enumerate(section):
        child = above.child(key)
        if child is None:
            pad = " " * indent
            new = [f"{pad}{'  ' * i}{each}:{end}" for i, each in enumerate(section[depth:])]
            made[at:at] = new if depth else [end, *new]
            return made, at + len(new) + (0 if depth else 1), indent + 2 * len(new)
        if "{" in made[child.key_line - 1].partition(":")[2].partition("#")[0]:
            path = ".".join(section[: depth + 1])
            raise ConfigError(
                [
                    Problem(
                        file,
                        child.key_line,
                        child.key_column,
                        path,
                        "is written in braces; write its entries on lines of their own",
                    )
                ]
            )
        at = _end(made, child.key_line, child.key_column - 1)
        indent = _indent(child, child.key_column + 1)
        above = child
    return made, at, indent


def _indent(section: Tree, otherwise: int) -> int:
    children = section.value.values() if isinstance(section.value, dict) else ()
    return next((child.key_column - 1 for child in children), otherwise)


def _end(lines: Sequence[str], key_line: int, key_indent: int) -> int:
    """Index after the last line that belongs to the key on `key_line` (1-based)."""
    end = key_line
    for i in _written(lines, key_line):
        if len(lines[i]) - len(lines[i].lstrip()) <= key_indent:
            break
        end = i + 1
    return end


def _written(lines: Sequence[str], start: int) -> Iterable[int]:
    """Indexes of the lines that are neither empty nor comments; end marks count as written."""
    for i in range(start, len(lines)):
        text = lines[i].strip()
        if text and (not text.startswith("#") or text.startswith("# imported from ")):
            yield i
