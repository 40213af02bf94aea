"""Ranges and node types: nobody types 18,000 nodes.

A key may hold ranges, `r[01-08]-[a,b]`; it stands for every combination, and in the texts below
it `{1}`, `{2}` … are the parts that the ranges took. `type: NAME` of a node fills in what the
entry of `node_types` says and the node does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from facility.errors import Problem
from facility.yamltree import Tree, dotted

MAX_EXPANDED: Final = 100_000
_RANGE: Final = re.compile(r"\[([^\[\]]*)\]")
_SPAN: Final = re.compile(r"^([0-9]+)-([0-9]+)$")
_REFERENCE: Final = re.compile(r"\{([0-9]{1,4})\}")

#: mappings whose keys may hold ranges
EXPANDABLE: Final = (
    ("power", "elements"),
    ("power", "groups"),
    ("power", "racks"),
    ("power", "loads"),
    ("nodes",),
    ("devices",),
)


def expand(tree: Tree, file: str) -> tuple[Tree, list[Problem]]:
    """Expand ranges everywhere they are allowed and merge node types into nodes."""
    problems: list[Problem] = []
    for path in EXPANDABLE:
        tree = _replace(tree, path, lambda t, p=path: _expand_mapping(t, p, file, problems))
    tree = _merge_types(tree, file, problems)
    return tree, problems


def _replace(tree: Tree, path: tuple[str, ...], change: object) -> Tree:
    if not path:
        return change(tree) if callable(change) else tree
    if not isinstance(tree.value, dict) or path[0] not in tree.value:
        return tree
    below = dict(tree.value)
    below[path[0]] = _replace(below[path[0]], path[1:], change)
    return _with(tree, below)


def _with(tree: Tree, value: dict[str, Tree] | list[Tree] | str) -> Tree:
    return Tree(value, tree.line, tree.column, tree.key_line, tree.key_column)


def _expand_mapping(tree: Tree, path: tuple[str, ...], file: str, problems: list[Problem]) -> Tree:
    if not isinstance(tree.value, dict):
        return tree
    out: dict[str, Tree] = {}
    for key, child in tree.value.items():
        try:
            names = list(_names(key))
        except ValueError as error:
            problems.append(
                Problem(file, child.key_line, child.key_column, dotted((*path, key)), str(error))
            )
            continue
        for name, parts in names:
            if name in out:
                first = out[name].key_line
                problems.append(
                    Problem(
                        file,
                        child.key_line,
                        child.key_column,
                        dotted((*path, name)),
                        f"stands twice (first on line {first})",
                    )
                )
                continue
            out[name] = _substitute(child, parts) if parts else child
    return _with(tree, out)


def _names(key: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    choices = [_choices(match.group(1)) for match in _RANGE.finditer(key)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MAX_EXPANDED:
        raise ValueError(f"the ranges stand for {total} names, more than {MAX_EXPANDED}")
    if not choices:
        yield key, ()
        return
    for parts in product(*choices):
        yield _fill(key, parts), parts


def _fill(key: str, parts: tuple[str, ...]) -> str:
    taken = iter(parts)
    return _RANGE.sub(lambda _: next(taken), key)


def _choices(text: str) -> list[str]:
    span = _SPAN.match(text)
    if span is None:
        names = [part.strip() for part in text.split(",")]
        if not all(names):
            raise ValueError(f"[{text}] is neither a range like [01-08] nor a list like [a,b]")
        return names
    first, last = span.groups()
    low, high = int(first), int(last)
    if high < low:
        raise ValueError(f"[{text}] runs backwards")
    if high - low >= MAX_EXPANDED:
        raise ValueError(f"[{text}] stands for more than {MAX_EXPANDED} names")
    width = len(first) if first.startswith("0") else 0
    return [str(number).zfill(width) for number in range(low, high + 1)]


def _substitute(tree: Tree, parts: tuple[str, ...]) -> Tree:
    value = tree.value
    if isinstance(value, dict):
        return _with(tree, {k: _substitute(v, parts) for k, v in value.items()})
    if isinstance(value, list):
        return _with(tree, [_substitute(v, parts) for v in value])
    if isinstance(value, str):
        return _with(tree, _REFERENCE.sub(lambda m: _part(m, parts), value))
    return tree


def _part(match: re.Match[str], parts: tuple[str, ...]) -> str:
    number = int(match.group(1))
    return parts[number - 1] if 1 <= number <= len(parts) else match.group(0)


def _merge_types(tree: Tree, file: str, problems: list[Problem]) -> Tree:
    if not isinstance(tree.value, dict):
        return tree
    top = dict(tree.value)
    types_tree = top.pop("node_types", None)
    types = types_tree.value if types_tree and isinstance(types_tree.value, dict) else {}
    nodes = top.get("nodes")
    if nodes is not None and isinstance(nodes.value, dict):
        merged: dict[str, Tree] = {}
        for name, node in nodes.value.items():
            merged[name] = _merge_node(name, node, types, file, problems)
        top["nodes"] = _with(nodes, merged)
    return _with(tree, top)


def _merge_node(
    name: str, node: Tree, types: dict[str, Tree], file: str, problems: list[Problem]
) -> Tree:
    if not isinstance(node.value, dict) or "type" not in node.value:
        return node
    own = dict(node.value)
    wanted = own.pop("type")
    kind = types.get(str(wanted.value))
    if kind is None or not isinstance(kind.value, dict):
        known = ", ".join(types) or "none is defined"
        problems.append(
            Problem(
                file,
                wanted.line,
                wanted.column,
                f"nodes.{name}.type",
                f"no node type {wanted.value!r}",
                f"node_types: {known}",
            )
        )
        return _with(node, own)
    return _with(node, {**kind.value, **own})
