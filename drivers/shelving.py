"""Things by name that are made when somebody asks for one, and once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Thing = TypeVar("Thing")


class MadeWhenAsked(Mapping[str, Thing]):
    """A mapping whose names are known at once and whose things are made one by one.

    Reading every profile takes most of a second, and a site names a handful of them.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], Thing]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, Thing] = {}

    def add(self, name: str, thing: Thing) -> None:
        """Put a thing beside the others, or in the place of one."""
        self._names[name] = None
        self._made[name] = thing

    def __getitem__(self, name: str) -> Thing:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
