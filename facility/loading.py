"""Read a facility file: every fault at once, with line and column, or a frozen Facility."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from facility import config
from facility.config import Facility, Node, Strict
from facility.errors import ConfigError, Problem
from facility.expanding import expand
from facility.yamltree import Path, Tree, dotted, parse_tree, read_text

MAX_PRUNINGS: Final = 12
#: pydantic's words for a wrong shape are those of Python
SHAPES: Final = {
    "model_type": "must hold keys with values",
    "dict_type": "must hold keys with values",
    "tuple_type": "must be a list, such as [a, b]",
    "string_type": "must be a text; put it into quotes",
}
SECRETS: Final = ("secret", "privacy_secret")
WHERE_SECRETS_ARE: Final = "{env: NAME}, {file: PATH} or {credential: NAME}"


@dataclass(frozen=True)
class Loaded:
    """A facility file that has the right shape.

    Attributes:
        facility: the parsed file, defaults filled in.
        tree: what the file says and where, ranges expanded.
        file: name as given.
        text: the bytes it came from.
        sha256: hex digest of them; goes with every decision.
    """

    facility: Facility
    tree: Tree
    file: str
    text: bytes
    sha256: str

    def problem(self, path: tuple[str | int, ...], text: str, hint: str | None = None) -> Problem:
        """A fault at the place of `path` in the file."""
        line, column = self.tree.place(path)
        return Problem(self.file, line, column, dotted(path), text, hint)


def load(path: str) -> Facility:
    """The Facility of a file with the right shape; meaning is checked by `facility.checking`.

    Raises:
        ConfigError: every fault of the file.
    """
    return load_file(path).facility


def load_file(path: str) -> Loaded:
    """Like `load`, with places and hash."""
    text, raw = read_text(path)
    return _strictly(text, raw, path)


def load_text(text: str, file: str = "<text>") -> Loaded:
    """Load from text; `file` names it in errors."""
    return _strictly(text, text.encode(), file)


def _strictly(text: str, raw: bytes, file: str) -> Loaded:
    loaded, problems, _ = load_partly(text, raw, file)
    if problems or loaded is None:
        raise ConfigError(problems)
    return loaded


def load_partly(
    text: str, raw: bytes, file: str
) -> tuple[Loaded | None, list[Problem], list[Path]]:
    """What can be read of a faulty file, so that faults of meaning can be listed as well.

    Returns:
        the file without its faulty parts (None if too little is left), the faults of shape in
        file order, and the paths that were left out.

    Raises:
        ConfigError: not YAML at all.
    """
    parsed, problems = parse_tree(text, file)
    tree, more = expand(parsed, file)
    problems = [*problems, *more]
    left_out: list[Path] = []
    facility: Facility | None = None
    for _ in range(MAX_PRUNINGS):
        try:
            facility = Facility.model_validate(tree.plain())
            break
        except ValidationError as error:
            faults = list(_faults(error, tree))
        if not left_out:
            problems.extend(_problem(fault, tree, file) for fault in faults)
        pruned = [_to_prune(fault, tree) for fault in faults]
        if not all(pruned):
            break
        for path in sorted(pruned, key=lambda p: tuple(map(str, p)), reverse=True):
            tree = tree.without(path)
        left_out.extend(pruned)
    problems = sorted(once(problems), key=lambda p: (p.line, p.column))
    if facility is None:
        return None, problems, left_out
    nodes = {name: _with_defaults(node) for name, node in facility.nodes.items()}
    filled = facility.model_copy(update={"nodes": nodes})
    return Loaded(filled, tree, file, raw, hashlib.sha256(raw).hexdigest()), problems, left_out


def once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """A fault inside a range stands once, not once per name."""
    seen: set[tuple[int, int, str]] = set()
    for problem in problems:
        key = (problem.line, problem.column, problem.problem)
        if key not in seen:
            seen.add(key)
            yield problem


def _with_defaults(node: Node) -> Node:
    floor = node.min_cap if node.floor is None else node.floor
    if node.floor_tokens is not None and node.curve is not None:
        floor = max(floor, node.curve.cap_for(node.floor_tokens / node.gpus))
    fallback = floor if node.fallback is None else node.fallback
    return node.model_copy(update={"floor": floor, "fallback": fallback})


def _field_names() -> frozenset[str]:
    models = [m for m in vars(config).values() if isinstance(m, type) and issubclass(m, Strict)]
    return frozenset(name for model in models for name in model.model_fields)


FIELD_NAMES: Final = _field_names()


@dataclass(frozen=True)
class _Fault:
    """One complaint of pydantic, its location already in terms of the file."""

    kind: str
    message: str
    path: Path


def _faults(error: ValidationError, tree: Tree) -> Iterator[_Fault]:
    for item in error.errors(include_url=False):
        missing = item["type"] == "missing"
        yield _Fault(item["type"], str(item["msg"]), _path(item["loc"], tree, missing=missing))


def _problem(fault: _Fault, tree: Tree, file: str) -> Problem:
    line, column = tree.place(fault.path, of_key=fault.kind == "extra_forbidden")
    text, hint = _words(fault)
    return Problem(file, line, column, dotted(fault.path), text, hint)


def _to_prune(fault: _Fault, tree: Tree) -> Path:
    """The smallest part to leave out so that the rest may still be read."""
    path = fault.path[:-1] if fault.kind == "missing" else fault.path
    while path and tree.at(path) is None:
        path = path[:-1]
    return path


def _path(loc: tuple[str | int, ...], tree: Tree, *, missing: bool) -> Path:
    """Pydantic's location without the names of union branches."""
    here: Tree | None = tree
    path: list[str | int] = []
    for i, step in enumerate(loc):
        below = here.child(step) if here is not None else None
        if below is None:
            if missing and i == len(loc) - 1:
                path.append(step)
            continue
        path.append(step)
        here = below
    return tuple(path)


def _words(fault: _Fault) -> tuple[str, str | None]:
    kind, message = fault.kind, fault.message
    if kind == "missing":
        return "is missing", None
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(fault.path[-1]), FIELD_NAMES, n=1)
        return "is no known key", f"did you mean {close[0]}?" if close else None
    if kind == "value_error":
        return message.removeprefix("Value error, "), None
    if kind == "model_type" and fault.path[-1] in SECRETS:
        return "must say where the secret is; the secret itself is never here", WHERE_SECRETS_ARE
    if kind in SHAPES:
        return SHAPES[kind], None
    if kind == "string_pattern_mismatch":
        return "is no name", "letters, digits, dot, dash and underscore; 64 at most"
    return message[:1].lower() + message[1:], None
