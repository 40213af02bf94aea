"""Values out of messages: paths worked out once, walked together where they share a beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drivers.mqtt.latest import NOT_JSON, Message
from drivers.profile.binding import Row
from drivers.profile.codec import Answer
from facility.points import Flaw

Path = Sequence[str | int | Row]

_SCALARS: Final = frozenset({int, float, str, bool})


class Paths:
    """The places of some paths in a message, and where in the answers their values go."""

    def __init__(self, wanted: Sequence[tuple[Path, int]]) -> None:
        """Take (path, index of the answer) of each; an empty path is the whole plain payload."""
        self._plain = [i for path, i in wanted if not path]
        groups: dict[tuple[str | int | Row, ...], list[tuple[str | int | Row, int]]] = {}
        for path, i in wanted:
            if path:
                groups.setdefault(tuple(path[:-1]), []).append((path[-1], i))
        self._groups = [
            (
                stem,
                [(_key(leaf), i) for leaf, i in leaves],
                [(_place(leaf), i) for leaf, i in leaves],
            )
            for stem, leaves in groups.items()
        ]
        self._all = [i for _, i in wanted]

    def fill(self, message: Message, answers: list[Answer]) -> None:
        """Put what the message says into the answers.

        REFUSED where it has no such key, SENTINEL where it says null, UNDECODABLE where the
        payload is no JSON, or holds an object or a list in place of a value.
        """
        for i in self._plain:
            text = message.text
            answers[i] = (text or "").strip() or Flaw.UNDECODABLE
        for stem, keyed, placed in self._groups:
            node = walk(message.body, stem)
            if type(node) is dict:
                get = node.get
                for key, i in keyed:
                    value = get(key, Flaw.REFUSED)
                    answers[i] = value if type(value) in _SCALARS else _odd(value)
            elif type(node) is list:
                size = len(node)
                for place, i in placed:
                    value = node[place] if 0 <= place < size else Flaw.REFUSED
                    answers[i] = value if type(value) in _SCALARS else _odd(value)
            else:
                for _, i in keyed:
                    answers[i] = _odd(step(node, ""))

    def miss(self, flaw: Flaw, answers: list[Answer]) -> None:
        """Say of every place that there is no value, and why."""
        for i in self._all:
            answers[i] = flaw


def walk(node: Any, path: Path) -> Any:
    """What stands at a path: a value of JSON, or a flaw."""
    for leaf in path:
        node = step(node, leaf)
    return node


def step(node: Any, leaf: str | int | Row) -> Any:
    """One step into an object or a list; a flaw passes through."""
    if type(node) is dict:
        return node.get(_key(leaf), Flaw.REFUSED)
    if type(node) is list:
        place = _place(leaf)
        return node[place] if 0 <= place < len(node) else Flaw.REFUSED
    if isinstance(node, Flaw):
        return node
    return Flaw.UNDECODABLE if node is NOT_JSON else Flaw.REFUSED


def _key(leaf: str | int | Row) -> str | int:
    return leaf.name if isinstance(leaf, Row) else leaf


def _place(leaf: str | int | Row) -> int:
    """Where a step leads to in a list; -1 for a key, which no list has."""
    place = leaf.place if isinstance(leaf, Row) else leaf
    return place if isinstance(place, int) else -1


def _odd(value: Any) -> Flaw:
    if isinstance(value, Flaw):
        return value
    return Flaw.SENTINEL if value is None else Flaw.UNDECODABLE
