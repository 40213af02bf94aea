"""Strict YAML with places: what a file says, and where it says it.

YAML 1.1 guesses (`no` is False, `0100` is 64, `12:30` is 750) have switched off plants. Here a
plain scalar is a number, true, false, null or text; whatever YAML 1.1 would read differently is
refused with a hint to quote it. Duplicate keys, tags, aliases and merge keys are refused too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from facility.errors import ConfigError, Problem

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 32

Scalar = str | int | float | bool | None
Path = tuple[str | int, ...]

_INT: Final = re.compile(r"^[+-]?(0|[1-9][0-9]*)$")
_FLOAT: Final = re.compile(r"^[+-]?(0|[1-9][0-9]*)?(\.[0-9]+|\.)?([eE][+-]?[0-9]+)?$")
_AMBIGUOUS: Final = (
    (re.compile(r"^(?:y|n|yes|no|on|off)$", re.I), "YAML 1.1 would read it as true or false"),
    (re.compile(r"^(?:true|false|null)$", re.I), "write it in lower case"),
    (re.compile(r"^[+-]?0[0-9_]+$"), "YAML 1.1 would read it as an octal number"),
    (re.compile(r"^[+-]?0[xob][0-9a-fA-F_]+$"), "write it as a decimal number"),
    (re.compile(r"^[+-]?[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?$"), "YAML 1.1 would read it in base 60"),
    (re.compile(r"^[+-]?[0-9][0-9]*_[0-9_]*$"), "write the number without underscores"),
    (re.compile(r"^[+-]?\.(?:inf|nan)$", re.I), "a value must be a finite number"),
)


@dataclass(frozen=True)
class Tree:
    """A value and its place (1-based line and column)."""

    value: dict[str, Tree] | list[Tree] | Scalar
    line: int
    column: int
    key_line: int = 0
    key_column: int = 0

    def plain(self) -> object:
        """The value without places: dicts, tuples and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return tuple(child.plain() for child in self.value)
        return self.value

    def without(self, path: Sequence[str | int]) -> Tree:
        """A copy in which what stands at `path` is gone (unchanged when nothing does)."""
        if not path:
            return self
        below = self.child(path[0])
        if below is None:
            return self
        rest = path[1:]
        value: dict[str, Tree] | list[Tree]
        if isinstance(self.value, dict):
            value = dict(self.value)
            if rest:
                value[str(path[0])] = below.without(rest)
            else:
                del value[str(path[0])]
        else:
            value = list(self.value) if isinstance(self.value, list) else []
            index = int(path[0])
            value[index : index + 1] = [below.without(rest)] if rest else []
        return Tree(value, self.line, self.column, self.key_line, self.key_column)

    def child(self, step: str | int) -> Tree | None:
        """The child under a key or index, or None."""
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, list) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    def at(self, path: Sequence[str | int]) -> Tree | None:
        """What stands at `path`, or None."""
        here: Tree | None = self
        for step in path:
            here = here.child(step) if here is not None else None
        return here

    def place(self, path: Sequence[str | int], *, of_key: bool = False) -> tuple[int, int]:
        """Line and column of the deepest part of `path` that exists."""
        here = self
        for step in path:
            below = here.child(step)
            if below is None:
                break
            here = below
        if of_key and here.key_line:
            return here.key_line, here.key_column
        return here.line, here.column


def dotted(path: Sequence[str | int]) -> str:
    """`power.racks.r01.feeds.b` for people."""
    return ".".join(str(step) for step in path)


def parse_tree(text: str, file: str) -> tuple[Tree, list[Problem]]:
    """Parse strict YAML; returns what could be read and every fault, with line and column.

    Raises:
        ConfigError: the text is no YAML at all, so nothing can be read.
    """
    problems: list[Problem] = []
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        line = text[: bad.start()].count("\n") + 1
        column = bad.start() - (text.rfind("\n", 0, bad.start()) + 1) + 1
        raise ConfigError([Problem(file, line, column, "", f"holds the character {bad.group()!r}")])
    loader = _NoAliases(text)
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        words = error.problem or "not readable as YAML"
        raise ConfigError([Problem(file, line, column, "", words)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError([Problem(file, 0, 0, "", f"not readable as YAML: {error}")]) from None
    finally:
        loader.dispose()
    if node is None:
        raise ConfigError([Problem(file, 1, 1, "", "the file is empty")])
    tree = _Reader(file, problems).read(node, ())
    if not isinstance(tree.value, dict):
        raise ConfigError([Problem(file, tree.line, tree.column, "", "is no mapping of keys")])
    return tree, problems


def read_text(path: str) -> tuple[str, bytes]:
    """Read a file as UTF-8; returns the text and the bytes it came from.

    Raises:
        ConfigError: unreadable, too large or not UTF-8.
    """
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise ConfigError([Problem(path, 0, 0, "", reason)]) from None
    if len(raw) > MAX_BYTES:
        raise ConfigError([Problem(path, 0, 0, "", f"larger than {MAX_BYTES} bytes")])
    try:
        return raw.decode("utf-8"), raw
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError([Problem(path, line, 1, "", "not UTF-8 text")]) from None


def read_tree(path: str) -> tuple[Tree, bytes]:
    """Read and parse a file that must be faultless; returns the tree and the bytes.

    Raises:
        ConfigError: every fault of reading and of strict YAML.
    """
    text, raw = read_text(path)
    tree, problems = parse_tree(text, path)
    if problems:
        raise ConfigError(problems)
    return tree, raw


class _NoAliases(yaml.SafeLoader):
    """Composes nodes; an alias becomes a node with a tag that the reader refuses.

    Aliases hide what a file says, and nested ones explode.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One node; in place of an alias a scalar tagged as one."""
        if self.check_event(yaml.AliasEvent):
            event: yaml.AliasEvent = self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode(
                _ALIAS,
                event.anchor,
                event.start_mark,  # type: ignore[arg-type]
                event.end_mark,  # type: ignore[arg-type]
            )
        self.anchors.clear()
        return super().compose_node(parent, index)


class _Reader:
    """Turns YAML nodes into a Tree and collects every fault on the way."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems

    def read(self, node: yaml.Node, path: Path) -> Tree:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if len(path) > MAX_DEPTH:
            self._fault(node, path, f"nested deeper than {MAX_DEPTH} levels")
            return Tree(None, line, column)
        if isinstance(node, yaml.MappingNode):
            self._refuse_tag(node, path, "tag:yaml.org,2002:map")
            return Tree(dict(self._pairs(node, path)), line, column)
        if isinstance(node, yaml.SequenceNode):
            self._refuse_tag(node, path, "tag:yaml.org,2002:seq")
            children = [self.read(child, (*path, i)) for i, child in enumerate(node.value)]
            return Tree(children, line, column)
        if isinstance(node, yaml.ScalarNode):
            return Tree(self._scalar(node, path), line, column)
        self._fault(node, path, "is no mapping, list or scalar")
        return Tree(None, line, column)

    def _pairs(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Tree]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, path, "a key must be plain text")
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key == "<<" and key_node.style is None:
                self._fault(key_node, here, "merge keys (<<) are not allowed")
                continue
            if key in seen:
                self._fault(key_node, here, f"key stands twice (first on line {seen[key]})")
                continue
            seen[key] = key_node.start_mark.line + 1
            below = self.read(value_node, here)
            yield (
                key,
                Tree(
                    below.value,
                    below.line,
                    below.column,
                    key_node.start_mark.line + 1,
                    key_node.start_mark.column + 1,
                ),
            )

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Scalar:
        text = str(node.value)
        if node.style is not None:
            self._refuse_tag(node, path, "tag:yaml.org,2002:str")
            return text
        if node.tag == _ALIAS:
            self._fault(node, path, f"aliases (*{text}) are not allowed", "ranges or node_types")
            return None
        if node.tag not in _PLAIN_TAGS:
            self._fault(node, path, f"the tag {node.tag} is not allowed")
            return text
        if text in ("", "~", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        for pattern, why in _AMBIGUOUS:
            if pattern.match(text):
                self._fault(node, path, f"{text} is ambiguous: {why}", f'write "{text}" in quotes')
                return text
        if len(text) > 300:
            return text
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text) and any(c.isdigit() for c in text):
            return float(text)
        return text

    def _refuse_tag(self, node: yaml.Node, path: Path, usual: str) -> None:
        if node.tag not in (usual, *_PLAIN_TAGS):
            self._fault(node, path, f"the tag {node.tag} is not allowed")

    def _fault(self, node: yaml.Node, path: Path, problem: str, hint: str | None = None) -> None:
        mark = node.start_mark
        self.problems.append(
            Problem(self.file, mark.line + 1, mark.column + 1, dotted(path), problem, hint)
        )


_ALIAS: Final = "!alias"
_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)
