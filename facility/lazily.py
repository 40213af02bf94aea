"""A mapping of which some values are worked out when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Lazily(Mapping[str, Any]):
    """Plain data by name; equal to a dict of the same.

    The facts of a cycle tell of 18,000 nodes what nobody asks for in most seconds. What is worked
    out later reads frozen columns only, so that it comes out the same whenever that is.
    """

    def __init__(self, now: Mapping[str, Any], later: Mapping[str, Callable[[], Any]]) -> None:
        """Keep what is known, and how to find the rest.

        Args:
            now: values that are there.
            later: how to make the others; a name in both keeps its place and comes from here.
        """
        self._known = {name: value for name, value in now.items() if name not in later}
        self._later = dict(later)
        self._names = tuple(dict.fromkeys((*now, *later)))

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._later[name]()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"<{', '.join(self._names)}>"


def plain(value: Any) -> Any:
    """The same data in dicts and lists, for a library that knows no other mappings."""
    if isinstance(value, Mapping):
        return {name: plain(below) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [plain(below) for below in value]
    return value
