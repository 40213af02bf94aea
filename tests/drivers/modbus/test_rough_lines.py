"""Noise, late answers, given-up reads and foreign frames on lines without transaction numbers."""

from __future__ import annotations

import asyncio
import random
import struct
from dataclasses import dataclass

import pytest

from drivers.address import parse_address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.modbus.framing import crc16
from drivers.modbus.owed import FORGOTTEN_AFTER_S, Owed
from drivers.modbus.wire import OnData, OnLost
from drivers.transport import Links
from facility.clock import LoopClock
from facility.points import Flaw
from tests.drivers.modbus.lines import flaws, read, registers
from tests.drivers.wires import in_virtual_time

ADDRESSES = {
    "tcp": "modbus://127.0.0.1:5020",
    "rtu": "modbus+rtu://127.0.0.1:5020",
    "serial": "modbus+serial:///dev/none",
}


@dataclass(frozen=True)
class Mood:
    """What goes wrong: delays in seconds, the rest as probabilities.

    An answer that comes twice is not among it where frames have no number: nothing tells it from
    the next one.
    """

    delays: tuple[float, ...]
    lost: float = 0.0
    noise: float = 0.0
    foreign: float = 0.0
    hangs_up: float = 0.0
    twice: float = 0.0
    split: float = 0.0
    refused: float = 0.0


MOODS = {
    "slow": Mood((0.1, 0.6, 0.9, 2.0), split=0.2),
    "lossy": Mood((0.01, 0.05, 0.6), lost=0.2, hangs_up=0.05, split=0.2),
    "noisy": Mood((0.01, 0.05), lost=0.05, noise=0.3, foreign=0.1, split=0.2),
    "all": Mood((0.01, 0.3, 1.5, 4.0), 0.1, 0.05, 0.05, 0.05, split=0.3, refused=0.1),
    "twice": Mood((0.01, 0.3, 0.7), 0.1, foreign=0.05, hangs_up=0.05, twice=0.3),
}


def held(unit: int, address: int) -> int:
    """What stands in a register: no two of a test hold the same."""
    return (unit * 997 + address * 31) & 0xFFFF


class Rough:
    """A line that serves one request after the other; late answers go to whoever is connected."""

    def __init__(self, rng: random.Random, mood: Mood, *, numbered: bool) -> None:
        self.rng, self.mood, self.numbered = rng, mood, numbered
        self.open: list[_Wire] = []
        self.free_s = 0.0

    async def dial(self, on_data: OnData, on_lost: OnLost) -> _Wire:
        await asyncio.sleep(0.001)
        self.open.append(_Wire(self, on_data, on_lost))
        return self.open[-1]


class _Wire:
    def __init__(self, line: Rough, on_data: OnData, on_lost: OnLost) -> None:
        self.line, self.on_data, self.on_lost = line, on_data, on_lost

    def write(self, data: bytes) -> None:
        line, rng, loop = self.line, self.line.rng, asyncio.get_running_loop()
        mood, number = line.mood, int.from_bytes(data[:2], "big")
        unit, pdu = (data[6], data[7:]) if line.numbered else (data[0], data[1:-2])
        address, count = struct.unpack(">HH", pdu[1:5])
        began_s = max(loop.time(), line.free_s)
        line.free_s = done_s = began_s + rng.choice(mood.delays) * rng.uniform(0.8, 1.2)
        early_s = began_s + (done_s - began_s) * rng.random()
        words = (held(unit, address + i) for i in range(count))
        reply = bytes((pdu[0], 2 * count)) + struct.pack(f">{count}H", *words)
        if rng.random() < mood.refused:
            reply = bytes((pdu[0] | 0x80, rng.choice((2, 4, 6, 11))))
        if rng.random() < mood.lost:
            return
        if rng.random() < mood.hangs_up:
            loop.call_at(done_s, self.hang_up)
            return
        if rng.random() < mood.noise:
            loop.call_at(early_s, self.put, rng.randbytes(rng.randrange(1, 5)))
        if rng.random() < mood.foreign:
            loop.call_at(early_s, self.answer, number ^ 0x5000, 99, reply)
        loop.call_at(done_s, self.answer, number, unit, reply)
        if rng.random() < mood.twice:
            loop.call_at(done_s + rng.choice((0.0, 0.2, 1.0)), self.answer, number, unit, reply)

    def answer(self, number: int, unit: int, reply: bytes) -> None:
        body = bytes((unit,)) + reply
        if self.line.numbered:
            frame = struct.pack(">HHH", number, 0, len(body)) + body
        else:
            frame = body + crc16(body).to_bytes(2, "little")
        if self.line.rng.random() < self.line.mood.split:
            cut = self.line.rng.randrange(1, len(frame))
            self.put(frame[:cut])
            asyncio.get_running_loop().call_later(0.002, self.put, frame[cut:])
        else:
            self.put(frame)

    def put(self, data: bytes) -> None:
        there = self if self.line.numbered else (self.line.open or [self])[-1]
        if there in self.line.open:
            there.on_data(data)

    def hang_up(self) -> None:
        if self in self.line.open:
            self.line.open.remove(self)
            self.on_lost()

    def take_back(self) -> bool:
        return False

    def close(self) -> None:
        if self in self.line.open:
            self.line.open.remove(self)


def wrong_values(seed: int, kind: str, mood: Mood) -> tuple[list[str], int]:
    """Values that are another register's, and how many were right, of three units."""
    rng = random.Random(seed)
    wanted: list[int] = []
    for block in range(rng.randrange(1, 5)):
        wanted.extend(range(200 * block, 200 * block + rng.choice((1, 1, 2, 2, 3, 4))))
    wrong: list[str] = []
    right = 0

    async def main(clock: LoopClock) -> None:
        line = Rough(rng, mood, numbered=kind == "tcp")
        shared = Links(clock, random.Random(seed), 0.5)
        binding = registers(*wanted, modbus={"max_hole": 0})

        async def reader(unit: int) -> None:
            nonlocal right
            address = parse_address(f"{ADDRESSES[kind]}/{unit}")
            modbus = binding.profile.modbus
            transport = ModbusTransport(address, shared, modbus, (), line.dial)
            box = ProfiledDevice(binding, transport, clock)
            for _ in range(40):
                limit_s = rng.choice((0.05, 0.2, 0.4)) if rng.random() < 0.2 else 60.0
                try:
                    async with asyncio.timeout(limit_s):  # some reads are given up half-way
                        scan = await read(box)
                except TimeoutError:
                    continue
                for value, register, flaw in zip(scan.values, wanted, flaws(scan), strict=True):
                    if flaw is Flaw.NONE and value != held(unit, register):
                        wrong.append(f"{unit}/{register}: {value}")
                    right += flaw is Flaw.NONE
                await asyncio.sleep(rng.choice((0.0, 0.1, 1.0)))

        await asyncio.gather(*(reader(unit) for unit in (1, 2, 3)))

    in_virtual_time(main)
    return wrong, right


@pytest.mark.parametrize("mood", list(MOODS))
@pytest.mark.parametrize("kind", list(ADDRESSES))
def test_no_answer_on_a_rough_line_is_taken_for_that_to_another_request(
    kind: str, mood: str
) -> None:
    """Cases 3 and 4: one answer apart for ever, after noise, a lost answer or a given-up read."""
    if mood == "twice" and kind != "tcp":
        return
    rights = 0
    for seed in (0, 3, 5, 8, 11):
        wrong, right = wrong_values(seed, kind, MOODS[mood])
        assert not wrong, (seed, wrong[:3])
        rights += right
    assert rights > 0


def test_what_a_unit_owes_is_remembered_in_order_and_forgotten_in_time() -> None:
    owed = Owed()
    owed.add(1, 3, 4, 0.0)
    owed.add(1, 3, 6, 1.0)
    owed.add(1, 6, 5, 2.0)
    assert owed.sizes(1, 3, 3.0) == {4, 6}
    assert owed.sizes(2, 3, 3.0) == frozenset()
    assert owed.came(1, bytes((3, 4, 0, 1, 0, 2))) == 1.0  # so the first never comes any more
    assert owed.sizes(1, 3, 3.0) == frozenset()
    assert owed.came(1, bytes((3, 4, 0, 1, 0, 2))) is None
    assert owed.sizes(1, 6, 3.0) == {5}
    assert owed.sizes(1, 6, 3.0 + FORGOTTEN_AFTER_S) == frozenset()


def test_a_refusal_may_be_the_answer_to_what_was_asked_before() -> None:
    owed = Owed()
    owed.add(1, 3, 4, 0.0)
    owed.answered(1, bytes((0x83, 2)), 6, 1.0)
    assert owed.sizes(1, 3, 2.0) == {6}  # ours may still come
    owed.answered(1, bytes((3, 6, 0, 0, 0, 0, 0, 0)), 8, 2.0)
    assert owed.sizes(1, 3, 3.0) == frozenset()


def test_debts_are_bounded() -> None:
    owed = Owed()
    for at_s in range(1000):
        owed.add(1, 3, at_s, float(at_s) / 1000.0)
    assert len(owed.sizes(1, 3, 1.0)) <= 8
