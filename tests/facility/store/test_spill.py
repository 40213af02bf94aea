"""The local file that keeps the journal while the database is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facility.store.spill import Spill


def test_entries_come_back_in_order_in_another_process_too(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill")
    assert len(spill) == 0
    assert not spill.path.exists()
    for n in range(3):
        spill.append("intent", {"n": n, "text": "é\n\u2028 line"})
    again = Spill(spill.path)
    assert len(again) == 3
    assert [(kind, body["n"]) for kind, body in again.entries()] == [
        ("intent", 0),
        ("intent", 1),
        ("intent", 2),
    ]
    assert again.entries()[0][1]["text"] == "é\n\u2028 line"
    again.clear()
    assert not spill.path.exists()
    assert Spill(spill.path).entries() == []


@settings(max_examples=40)
@given(cut=st.integers(1, 200))
def test_a_line_cut_off_anywhere_is_left_out_and_later_ones_count(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spill = Spill(tmp_path_factory.mktemp("spill") / "spill")
    spill.append("acks", {"n": 1})
    keep = spill.path.stat().st_size
    spill.append("acks", {"n": 2, "padding": "x" * 150})
    whole = spill.path.read_bytes()
    end = keep + min(cut, len(whole) - keep - 2)
    spill.path.write_bytes(whole[:end])
    again = Spill(spill.path)
    assert [body["n"] for _, body in again.entries()] == [1]
    assert again.damaged == 1
    again.append("acks", {"n": 3})
    assert [body["n"] for _, body in again.entries()] == [1, 3]


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill")
    spill.append("acks", {"n": 1})
    data = bytearray(spill.path.read_bytes())
    data[15] ^= 1
    spill.path.write_bytes(bytes(data) + b"no line of ours\n")
    assert spill.entries() == []
    assert spill.damaged == 2


def test_what_cannot_be_replayed_is_set_aside_not_thrown_away(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill")
    spill.append("acks", {"n": 1})
    spill.entries()
    kept = spill.set_aside()
    assert not spill.path.exists()
    spill.append("acks", {"n": 2})
    spill.entries()
    spill.set_aside()
    assert len(kept.read_bytes().splitlines()) == 2


def test_what_comes_while_the_rest_is_replayed_is_kept(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill")
    spill.append("acks", {"n": 1})
    seen = spill.entries()
    spill.append("acks", {"n": 2})
    spill.clear()
    assert [body["n"] for _, body in seen] == [1]
    assert [body["n"] for _, body in spill.entries()] == [2]
    assert len(spill) == 1
    spill.append("acks", {"n": 3})
    spill.set_aside()
    assert [body["n"] for _, body in spill.entries()] == [3]
    spill.clear()
    assert not spill.path.exists()
