"""The spool: in order, over restarts, within its bound, whatever happened to its bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facility.store import StoreLocked
from facility.store.remote import Naming, RemoteSink, Spool
from facility.store.remote.encode import Request
from tests.facility.store.plant import START_MS, layout, scan


def requests(first: int, count: int, size: int = 100) -> list[Request]:
    return [
        Request(n.to_bytes(4, "big") + os.urandom(size - 4), n, START_MS + n)
        for n in range(first, first + count)
    ]


def numbers(spool: Spool, most: int = 10**9) -> list[int]:
    """Takes what waits, in order."""
    found = []
    while len(found) < most and (record := spool.first()) is not None:
        found.append(int.from_bytes(record.body[:4], "big"))
        assert (record.samples, record.first_ms) == (found[-1], START_MS + found[-1])
        spool.done(record)
    return found


def test_what_waits_survives_restarts_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.append(requests(0, 10))
    assert numbers(spool, 3) == [0, 1, 2]
    for restart in range(3):
        spool.close()
        spool = Spool(tmp_path, 1 << 20)
        spool.append(requests(10 + 5 * restart, 5))
        assert numbers(spool, 2) == [3 + 2 * restart, 4 + 2 * restart]
    assert numbers(spool) == list(range(9, 25))
    assert spool.first() is None
    spool.append(requests(100, 1))
    assert numbers(spool) == [100]
    spool.close()
    again = Spool(tmp_path, 1 << 20)
    assert again.first() is None
    assert again.waiting_bytes == 0
    again.append(requests(7, 1))
    again.close()
    assert numbers(Spool(tmp_path, 1 << 20)) == [7], "an old place must not hide a new segment"


def test_kill_without_a_word_sends_the_last_ones_again_at_worst(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "a", 1 << 20)
    spool.append(requests(0, 4))
    numbers(spool, 2)
    (tmp_path / "b").mkdir()
    for file in (tmp_path / "a").iterdir():
        if file.name != "sent":
            (tmp_path / "b" / file.name).write_bytes(file.read_bytes())
    assert numbers(Spool(tmp_path / "b", 1 << 20)) == [0, 1, 2, 3]


def test_at_the_bound_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    for n in range(400):
        spool.append(requests(n, 1, size=10_000))
    held = sum(f.stat().st_size for f in tmp_path.glob("*.seg"))
    assert held <= 1 << 20
    assert held > (1 << 20) * 3 // 4, "one segment at a time"
    kept = numbers(spool)
    assert kept == list(range(kept[0], 400))
    assert spool.dropped_samples == sum(range(kept[0]))


def test_one_that_was_dropped_while_it_was_sent_does_not_move_the_rest(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.append(requests(0, 2, size=10_000))
    sending = spool.first()
    assert sending is not None
    for n in range(2, 200):
        spool.append(requests(n, 1, size=10_000))
    spool.done(sending)
    kept = numbers(spool)
    assert kept == list(range(kept[0], 200))


@settings(max_examples=60)
@given(data=st.data())
def test_damage_costs_the_records_it_touches_and_no_other(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, 1 << 20)
    for n in range(8):
        spool.append(requests(n, 1, size=60))
    spool.close()
    (file,) = folder.glob("*.seg")
    whole = bytearray(file.read_bytes())
    width = len(whole) // 8
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[at] ^= data.draw(st.integers(1, 255))
        expected = [n for n in range(8) if n != at // width]
    else:
        del whole[at:]
        expected = list(range(at // width))
    file.write_bytes(whole)
    again = Spool(folder, 1 << 20)
    again.append(requests(50, 1, size=60))
    assert numbers(again) == [*expected, 50]
    assert again.damaged == (0 if at % width == 0 and len(whole) == at else 1)
    again.close()


def test_two_processes_never_share_a_folder(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    with pytest.raises(StoreLocked):
        Spool(tmp_path, 1 << 20)
    spool.close()
    Spool(tmp_path, 1 << 20).close()


def test_a_folder_that_cannot_be_written_keeps_scans_in_their_bound(tmp_path: Path) -> None:
    pdu = layout()
    folder = tmp_path / "spool"
    sink = RemoteSink(Spool(folder, 1 << 20), Naming(), max_samples=40)
    away = folder.rename(tmp_path / "away")
    for n in range(5):
        sink.put(scan(pdu, [float(n)] * 4, at_ms=START_MS + n))
    assert sink.pack() is False
    assert sink.error is not None
    for n in range(5, 100):
        sink.put(scan(pdu, [float(n)] * 4, at_ms=START_MS + n))
    assert sink.pack() is False
    assert sink.queued_samples == 40
    assert sink.dropped_samples == 4 * 85
    away.rename(folder)
    assert sink.pack() is True
    assert sink.pack() is True
    assert sink.error is None
    total = 0
    while (record := sink.spool.first()) is not None:
        total += record.samples
        sink.spool.done(record)
    assert total == 4 * 15
    sink.close()
