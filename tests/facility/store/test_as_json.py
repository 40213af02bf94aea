"""What is packed in pieces reads as if it had been written at once."""

from __future__ import annotations

import json
import zlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from facility.lazily import Lazily, plain
from facility.store.rows import as_json
from facility.store.rows.as_json import dumps, packed, unpacked

LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
BODY = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        LEAF,
        lambda below: (
            st.lists(below, max_size=5) | st.dictionaries(st.text(max_size=4), below, max_size=5)
        ),
        max_leaves=30,
    ),
)


def text_of(body: Any) -> str:
    return json.dumps(plain(body), separators=(",", ":"), ensure_ascii=False)


@given(BODY)
def test_pieces_join_to_the_same_text(body: dict[str, Any]) -> None:
    few, piece = as_json.FEW, as_json.PIECE
    as_json.FEW, as_json.PIECE = 2, 2
    try:
        assert zlib.decompress(packed(body)).decode() == dumps(body) == text_of(body)
    finally:
        as_json.FEW, as_json.PIECE = few, piece
    assert unpacked(packed(body)) == body


def test_a_long_table_and_a_lazy_one_are_written_as_dicts() -> None:
    rows = {f"n{i}": {"cap_w": float(i), "because": None} for i in range(as_json.PIECE + 3)}
    listed = [[name, 1.5, float("inf"), (True,)] for name in rows]
    lazy = Lazily({"a": 1}, {"nodes": lambda: rows, "none": lambda: Lazily({}, {})})
    body = {"setpoints": listed, "facts": {"allocation": lazy}}
    assert zlib.decompress(packed(body)).decode() == dumps(body) == text_of(body)
