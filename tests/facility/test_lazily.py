"""A lazy mapping is told from a dict by nothing but when its values are made."""

from __future__ import annotations

import json

from facility.exact import dumps
from facility.lazily import Lazily, plain


def test_a_value_is_made_once_and_only_when_somebody_looks() -> None:
    made: list[str] = []

    def later() -> list[int]:
        made.append("b")
        return [1, 2]

    facts = Lazily({"a": 1, "b": None, "c": 3}, {"b": later})
    assert (facts["a"], len(facts), list(facts), made) == (1, 3, ["a", "b", "c"], [])
    assert facts["b"] == facts["b"] == [1, 2]
    assert made == ["b"]


def test_it_equals_a_dict_of_the_same_and_is_written_as_one() -> None:
    facts = Lazily({"a": {"x": 1.5}}, {"b": lambda: [Lazily({}, {"c": lambda: None})]})
    same = {"a": {"x": 1.5}, "b": [{"c": None}]}
    assert facts == same
    assert same == facts
    assert facts != {"a": {"x": 1.5}}
    assert dumps(facts) == dumps(same)
    assert json.dumps(plain(facts)) == json.dumps(same)
