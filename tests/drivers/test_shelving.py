"""Profiles are read one by one: a command that names two does not wait for the others."""

from __future__ import annotations

import pytest

from drivers.shelving import MadeWhenAsked


def test_a_thing_is_made_when_it_is_asked_for_and_once() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    shelf = MadeWhenAsked(["a", "b", "c"], make)
    assert list(shelf) == ["a", "b", "c"]
    assert len(shelf) == 3
    assert "b" in shelf
    assert not made
    assert (shelf["b"], shelf.get("b"), shelf.get("z")) == ("B", "B", None)
    assert made == ["b"]
    assert dict(shelf) == {"a": "A", "b": "B", "c": "C"}
    assert made == ["b", "a", "c"]
    with pytest.raises(KeyError):
        shelf["z"]
    shelf.add("z", "own")
    assert (shelf["z"], len(shelf)) == ("own", 4)


def test_what_cannot_be_made_is_tried_again() -> None:
    tries = iter((ValueError("not yet"), None))

    def make(name: str) -> str:
        fault = next(tries)
        if fault is not None:
            raise fault
        return name

    shelf = MadeWhenAsked(["a"], make)
    with pytest.raises(ValueError, match="not yet"):
        shelf["a"]
    assert shelf["a"] == "a"
