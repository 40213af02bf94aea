"""Rows of tables: what they are called, and which arcs stand for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.profile.rows import arcs, key_in, key_of, name_of, part_of, rows_told, shape_of

WORDS = st.lists(st.sampled_from(("row", "text")), min_size=1, max_size=3).filter(
    lambda words: words.count("text") <= 1 and "text" not in words[:-1]
)
TEXTS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)


@given(st.data(), WORDS)
def test_a_row_is_found_again_by_its_name(data: st.DataObject, words: list[str]) -> None:
    index = (7, *words)
    key = tuple(
        data.draw(st.integers(0, 999_999_999) if word == "row" else TEXTS.filter(_no_hex))
        for word in index
        if isinstance(word, str)
    )
    assert key_of(name_of(key), index) == key
    assert key_in(arcs(index, key), index) == key


def _no_hex(text: str) -> bool:
    return not text.startswith("0x")


@given(st.lists(st.integers(0, 2**32 - 1), max_size=8))
def test_arcs_of_another_shape_are_no_row(suffix: list[int]) -> None:
    key = key_in(suffix, (1, "row", "text"))
    if key is not None:
        assert arcs((1, "row", "text"), key) == tuple(suffix)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ((5,), 5),
        ((1, 5), 5),
        ((2, 5), "2-5"),
        ((1, 2, 1), "2-1"),
        ((1, 1, 1), 1),
        ((3, "A"), "3-A"),
    ],
)
def test_the_only_unit_of_a_chain_goes_without_saying(
    key: tuple[int | str, ...], name: object
) -> None:
    assert name_of(key) == name


def test_a_mac_address_in_six_octets_is_written_in_hexadecimal_digits() -> None:
    key = key_in((4, 6, 0, 36, 155, 53, 3, 246), ("row", "text"))
    assert key == (4, "0x00249b3503f6")
    assert name_of(key) == "4-0x00249b3503f6"
    assert part_of(name_of(key)) == "4-0x00249b3503f6"
    assert arcs(("row", "text"), key) == (4, 6, 0, 36, 155, 53, 3, 246)


def test_what_a_facility_file_may_say_of_rows() -> None:
    assert rows_told("3", ("row",), 1, 8) == (1, 2, 3)
    assert rows_told("2", ("row",), 0, 8) == (0, 1)
    assert rows_told("1,3,5..7", ("row",), 1, 8) == (1, 3, 5, 6, 7)
    assert rows_told("2-1, 2-2", ("row", "row"), 1, 8) == ("2-1", "2-2")
    assert rows_told("1-00AA,", ("row", "text"), 1, 8) == ("1-00AA",)


@pytest.mark.parametrize("text", ["9", "x", "-1", "1,1", "1..99", "1-2-3", "1,two"])
def test_what_names_no_rows_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"row|names"):
        rows_told(text, ("row",), 1, 8)


def test_places_of_a_table_agree_on_its_rows() -> None:
    assert shape_of({"a": (1, "row", 5), "b": ("row",)}) == (1, "row", 5)
    with pytest.raises(ValueError, match="b: index"):
        shape_of({"a": ("row",), "b": ("row", "row")})
