"""A sick unit, register or gateway harms nobody else; in virtual time, a minute in a moment."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from drivers.capture import place_name
from drivers.device import ProfiledDevice
from facility.clock import LoopClock
from facility.points import Flaw
from tests.drivers.modbus.lines import (
    Answers,
    Line,
    Reply,
    after,
    device,
    echoed,
    flaws,
    links,
    read,
    registers,
)
from tests.drivers.wires import in_virtual_time

CYCLES = 60


def without_seven(answers: Sequence[Reply]) -> Answers:
    return lambda unit, pdu: answers if unit == 7 else [(0.005, unit, echoed(pdu))]


SICK: dict[str, Answers] = {
    "never answers": without_seven(()),
    "gateway says 0x0B after 0.5 s": without_seven([(0.5, 7, bytes((0x83, 0x0B)))]),
    "gateway says 0x0A at once": without_seven([(0.001, 7, bytes((0x83, 0x0A)))]),
    "answers as another unit": without_seven([(0.005, 9, bytes((3, 2, 0, 1)))]),
    "hangs up": without_seven([(0.005, 7, None)]),
}


async def kept(boxes: Sequence[ProfiledDevice], clock: LoopClock) -> float:
    """The part of one-second cycles in which a device was read whole and in time."""
    good = 0

    async def cycle(place: int, box: ProfiledDevice) -> None:
        nonlocal good
        start_s = clock.monotonic_s() + place / len(boxes)
        for turn in range(CYCLES):
            await asyncio.sleep(max(start_s + turn - clock.monotonic_s(), 0.0))
            scan = await read(box)
            in_time = clock.monotonic_s() < start_s + turn + 1.0
            right = all(v == a for v, a in zip(scan.values, range(12), strict=True))
            good += box is not boxes[-1] and in_time and right

    await asyncio.gather(*(cycle(i, box) for i, box in enumerate(boxes)))
    return good / (CYCLES * (len(boxes) - 1))


@pytest.mark.parametrize("name", list(SICK))
@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_one_dead_unit_on_a_line_of_seven_leaves_the_other_six_their_cycles(
    name: str, rtu: bool
) -> None:
    """Case 1: home-assistant/core#72495, influxdata/telegraf#11782."""

    async def main(clock: LoopClock) -> float:
        line = Line(SICK[name], rtu=rtu, queued=True)
        shared = links(clock)
        boxes = [device(registers(*range(12)), line, shared, clock, u) for u in range(1, 8)]
        share = await kept(boxes, clock)
        asked = sum(unit == 7 for unit, _ in line.asked)
        assert 3 <= asked <= 25  # probed, but rarely
        return share

    assert in_virtual_time(main) >= 0.99


@pytest.mark.parametrize("waits_s", [0.01, 1.0, 3.0])
def test_thirty_units_come_back_soon_after_their_gateway_had_lost_its_line(waits_s: float) -> None:
    """Exception 11 for all of them put each off for minutes, to spare neighbours as dead as it."""
    lost = [False]

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        if lost[0]:
            return [(waits_s, unit, bytes((pdu[0] | 0x80, 11)))]
        return [(0.02, unit, echoed(pdu))]

    async def main(clock: LoopClock) -> None:
        line, shared = Line(answers, queued=True), links(clock)
        boxes = [device(registers(5), line, shared, clock, unit) for unit in range(1, 31)]
        back: dict[int, float] = {}

        async def reader(unit: int, box: ProfiledDevice, until_s: float) -> None:
            while clock.monotonic_s() < until_s:
                if flaws(await read(box)) == [Flaw.NONE]:
                    back.setdefault(unit, clock.monotonic_s())
                await asyncio.sleep(1.0)

        async def everybody(for_s: float) -> None:
            until_s = clock.monotonic_s() + for_s
            await asyncio.gather(*(reader(i, box, until_s) for i, box in enumerate(boxes)))

        await everybody(10.0)
        assert len(back) == 30
        lost[0] = True
        await everybody(300.0)
        lost[0], well_s = False, clock.monotonic_s()
        line.free_s = well_s  # what it still had to ask is forgotten
        back.clear()
        await everybody(60.0)
        assert len(back) == 30
        assert max(back.values()) - well_s <= 40.0

    in_virtual_time(main)


def test_a_dead_unit_is_asked_one_cheap_question_and_read_again_when_it_answers_that() -> None:
    """Case 1, the way back."""
    alive = [True]

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        return [(0.005, unit, echoed(pdu))] if alive[0] else ()

    async def main(clock: LoopClock) -> None:
        line = Line(answers)
        box = device(registers(*range(100)), line, links(clock), clock)
        assert set(flaws(await read(box))) == {Flaw.NONE}
        alive[0] = False
        before = len(line.asked)
        for _ in range(40):
            assert set(flaws(await read(box))) == {Flaw.TIMEOUT}
            await asyncio.sleep(1.0)
        probes = line.asked[before + 2 :]
        assert 3 <= len(probes) <= 8
        assert all(struct.unpack(">H", pdu[3:5])[0] <= 2 for _, pdu in probes)
        alive[0] = True
        await asyncio.sleep(20.0)
        assert set(flaws(await read(box))) == {Flaw.NONE}

    in_virtual_time(main)


def hole(*bad: int, most: int = 125) -> Answers:
    """Exception 2 for any read that covers one of these registers, 3 for one that is too long."""

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        address, count = struct.unpack(">HH", pdu[1:5])
        if count > most:
            return [(0.002, unit, bytes((pdu[0] | 0x80, 3)))]
        if any(address <= b < address + count for b in bad):
            return [(0.002, unit, bytes((pdu[0] | 0x80, 2)))]
        return [(0.002, unit, echoed(pdu))]

    return answers


def test_one_illegal_register_of_120_costs_sixteen_requests_once_and_then_two_a_cycle() -> None:
    """Case 2: influxdata/telegraf#14671, nathanmarlor/foxess_modbus#680."""

    async def main(clock: LoopClock) -> None:
        line = Line(hole(37))
        binding = registers(*range(120), modbus={"max_block": 125})
        box = device(binding, line, links(clock), clock)
        first = await read(box)
        assert [i for i, f in enumerate(flaws(first)) if f is not Flaw.NONE] == [37]
        assert flaws(first)[37] is Flaw.REFUSED
        assert len(line.asked) <= 16
        before = len(line.asked)
        for _ in range(10):
            scan = await read(box)
            assert sum(f is Flaw.NONE for f in flaws(scan)) == 119
        assert len(line.asked) - before <= 30

    in_virtual_time(main)


def test_a_register_that_comes_with_new_firmware_is_found_within_an_hour() -> None:
    """Case 2, re-probing."""

    async def main(clock: LoopClock) -> None:
        line = Line(hole(37))
        box = device(registers(*range(60)), line, links(clock), clock)
        await read(box)
        line.answers = hole()
        for _ in range(70):
            await asyncio.sleep(60.0)
            scan = await read(box)
        assert set(flaws(scan)) == {Flaw.NONE}
        before = len(line.asked)
        await read(box)
        assert len(line.asked) - before == 1  # one block again

    in_virtual_time(main)


def test_a_refused_register_is_asked_for_less_and_less_often() -> None:
    async def main(clock: LoopClock) -> None:
        line = Line(hole(37))
        box = device(registers(*range(60)), line, links(clock), clock)
        for _ in range(7200):
            await read(box)
            await asyncio.sleep(1.0)
        assert len(line.asked) < 7200 * 2 + 40

    in_virtual_time(main)


@pytest.mark.parametrize("codes", [(2,), (3,), (6, 2), (6, 6, 6, 2), (2, 4)])
def test_a_unit_that_refuses_now_and_then_is_not_cut_to_pieces(codes: Sequence[int]) -> None:
    """Case 2: each passing refusal cost a block one more request for an hour, or a register."""

    async def main(clock: LoopClock) -> None:
        said: list[int] = []

        def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
            if said:
                return [(0.002, unit, bytes((pdu[0] | 0x80, said.pop(0))))]
            return [(0.002, unit, echoed(pdu))]

        line = Line(answers)
        box = device(registers(*range(60)), line, links(clock), clock)
        for _ in range(20):
            await asyncio.sleep(1.0)
            said[:] = codes
            await read(box)
        said.clear()
        before = len(line.asked)
        assert set(flaws(await read(box))) == {Flaw.NONE}
        assert len(line.asked) - before == 1

    in_virtual_time(main)


def test_a_gap_that_may_not_be_read_over_is_cut_and_a_device_with_short_blocks_gets_them() -> None:
    async def main(clock: LoopClock) -> None:
        for answers, most in ((hole(50), 2), (hole(most=32), 4)):
            line = Line(answers)
            wanted = [a for a in range(100) if a != 50]
            box = device(registers(*wanted), line, links(clock), clock)
            for _ in range(3):
                before = len(line.asked)
                scan = await read(box)
                assert set(flaws(scan)) == {Flaw.NONE}
                assert list(scan.values) == wanted
            assert len(line.asked) - before <= most

    in_virtual_time(main)


def test_a_device_that_refuses_everything_while_it_starts_is_whole_again_minutes_later() -> None:
    async def main(clock: LoopClock) -> None:
        line = Line(hole(*range(60)))
        box = device(registers(*range(60)), line, links(clock), clock)
        for _ in range(5):
            assert not {Flaw.NONE} & set(flaws(await read(box)))
            await asyncio.sleep(1.0)
        line.answers = hole()
        for _ in range(200):
            await asyncio.sleep(1.0)
            scan = await read(box)
        assert set(flaws(scan)) == {Flaw.NONE}

    in_virtual_time(main)


@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_a_device_slower_than_the_timeout_is_read_and_never_gives_anothers_value(
    rtu: bool,
) -> None:
    """Case 3: evcc-io/evcc#23395, wlcrs/tmodbus#88, pymodbus-dev/pymodbus#538."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.6), rtu=rtu, queued=True)
        wanted = [100, 200, 300, 400]
        binding = registers(*wanted, modbus={"max_hole": 0})
        box = device(binding, line, links(clock, timeout_s=0.5), clock)
        for _ in range(12):
            scan = await read(box)
            for value, address, flaw in zip(scan.values, wanted, flaws(scan), strict=True):
                assert flaw is Flaw.TIMEOUT or value == address
            await asyncio.sleep(2.0)
        assert set(flaws(scan)) == {Flaw.NONE}  # slow is not dead

    in_virtual_time(main)


@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_the_answer_to_a_cancelled_read_is_not_taken_for_the_next_ones(rtu: bool) -> None:
    """Case 4: ViperRNMC/marstek_venus_modbus#299."""

    async def main(clock: LoopClock) -> None:
        delays = iter([0.4, *[0.01] * 50])
        line = Line(lambda u, pdu: [(next(delays), u, echoed(pdu))], rtu=rtu)
        shared = links(clock)
        one = device(registers(100), line, shared, clock)
        other = device(registers(200), line, shared, clock)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await read(one)
        for _ in range(5):
            scan = await read(other)
            assert flaws(scan) != [Flaw.NONE] or list(scan.values) == [200.0]
            await asyncio.sleep(0.1)
        assert flaws(scan) == [Flaw.NONE]

    in_virtual_time(main)


def test_a_device_that_miscounts_its_transactions_is_named_and_keeps_its_link() -> None:
    """Case 5: pymodbus-dev/pymodbus#2777."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.005))
        turns = iter(range(10_000))
        line.shift = lambda: -1 if next(turns) % 7 == 3 else 0
        box = device(registers(5), line, links(clock), clock)
        for _ in range(50):
            scan = await read(box)
            assert flaws(scan) == [Flaw.NONE]
            assert scan.values[0] == 5.0
        assert box.odd["an answer that belongs to no request"] >= 5
        assert len(line.dials) == 1

    in_virtual_time(main)


def test_what_is_odd_about_one_unit_is_not_said_of_its_neighbours_or_of_nobody() -> None:
    async def main(clock: LoopClock) -> None:
        shared = links(clock)
        line = Line(
            lambda u, pdu: [(0.005, u, echoed(pdu)), *([(0.009, 77, echoed(pdu))] * (u == 2))]
        )
        boxes = [device(registers(5), line, shared, clock, unit) for unit in (1, 2)]
        for _ in range(3):
            for box in boxes:
                await read(box)
                await asyncio.sleep(0.1)
        assert [dict(box.odd) for box in boxes] == [{}, {}]  # it came when nobody was asked
        line.answers = lambda u, pdu: [(0.005, u, echoed(pdu)[: 3 if u == 2 else None])]
        for box in boxes:
            await read(box)
        assert not boxes[0].odd
        assert boxes[1].odd == {"answer that does not fit its request": 1}

    in_virtual_time(main)


def test_answers_that_come_twice_are_taken_once() -> None:
    async def main(clock: LoopClock) -> None:
        line = Line(lambda u, pdu: [(0.005, u, echoed(pdu)), (0.008, u, echoed(pdu))])
        box = device(registers(5, 300, 600), line, links(clock), clock)
        for _ in range(10):
            scan = await read(box)
            assert list(scan.values) == [5.0, 300.0, 600.0]
        assert len(line.dials) == 1
        assert len(line.asked) == 30

    in_virtual_time(main)


def test_the_poll_classes_of_a_dead_unit_do_not_all_wait_for_it() -> None:
    async def main(clock: LoopClock) -> None:
        line = Line(lambda _u, _p: [])
        box = device(registers(5), line, links(clock), clock)
        scans = await asyncio.gather(*(read(box) for _ in range(3)))
        assert all(flaws(scan) == [Flaw.TIMEOUT] for scan in scans)
        assert len(line.asked) == 1

    in_virtual_time(main)


def test_a_busy_device_is_asked_again_a_little_later() -> None:
    """Exception 6 means later, not no."""

    async def main(clock: LoopClock) -> None:
        busy = iter([True, True, False])
        line = Line(lambda u, pdu: [(0.005, u, bytes((0x83, 6)) if next(busy) else echoed(pdu))])
        box = device(registers(5), line, links(clock), clock)
        assert flaws(await read(box)) == [Flaw.NONE]
        line.answers = lambda u, _: [(0.005, u, bytes((0x83, 6)))]
        assert flaws(await read(box)) == [Flaw.DEVICE_FAULT]

    in_virtual_time(main)


def test_sixty_registers_over_a_slow_line_are_one_request() -> None:
    """Case 13: RichiH/modbus_exporter#20."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.1))
        box = device(registers(*range(60)), line, links(clock), clock)
        assert set(flaws(await read(box))) == {Flaw.NONE}
        assert len(line.asked) == 1

    in_virtual_time(main)


def test_units_behind_one_gateway_are_never_asked_at_once() -> None:
    """Case 14: RichiH/modbus_exporter#66."""

    async def main(clock: LoopClock) -> None:
        free_s, refused = [0.0], 0

        def impatient(unit: int, pdu: bytes) -> Sequence[Reply]:
            nonlocal refused
            now_s = clock.monotonic_s()
            if now_s < free_s[0]:
                refused += 1
                return [(0.001, unit, bytes((pdu[0] | 0x80, 11)))]
            free_s[0] = now_s + 0.02
            return [(0.02, unit, echoed(pdu))]

        line, shared = Line(impatient), links(clock)
        boxes = [device(registers(3), line, shared, clock, u) for u in range(1, 6)]
        for _ in range(5):
            scans = await asyncio.gather(*(read(box) for box in boxes))
            assert all(flaws(scan) == [Flaw.NONE] for scan in scans)
        assert refused == 0
        assert len(line.asked) == 25

    in_virtual_time(main)


def test_the_last_registers_are_read_and_nothing_wraps() -> None:
    """Case 12: influxdata/telegraf#15138."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.01))
        wanted = [*range(65524, 65536)]
        box = device(registers(*wanted), line, links(clock), clock)
        assert list((await read(box)).values) == wanted
        assert line.asked == [(1, struct.pack(">BHH", 3, 65524, 12))]

    in_virtual_time(main)
    for address, kind in ((65535, "u32"), (65533, "f64"), (65536, "u16")):
        with pytest.raises(ValidationError, match="65535"):
            registers(address, kind=kind)


def test_register_40101_of_a_manual_is_100_on_the_wire() -> None:
    """Case 16: pymodbus-dev/pymodbus#1909; a profile's address is the wire's, and is shown so."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.01))
        box = device(registers(40101 - 40001), line, links(clock), clock)
        assert list((await read(box)).values) == [100.0]
        assert line.asked == [(1, struct.pack(">BHH", 3, 100, 1))]
        assert [place_name(p.at) for p in box.binding.all()] == ["holding 100 x 1"]

    in_virtual_time(main)
