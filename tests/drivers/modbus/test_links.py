"""Connections that come and go, clients that must share, and writes: in virtual time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from drivers.modbus import ModbusTransport
from drivers.modbus.turns import Turns
from drivers.modbus.wire import OnData, OnLost, Wire
from drivers.profile import ModbusWhere
from drivers.profile.binding import ModbusAt
from facility.clock import LoopClock
from facility.points import Flaw
from tests.drivers.modbus.lines import (
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
from tests.drivers.wires import binding_of, in_virtual_time

SETPOINT = ModbusAt(ModbusWhere(address=9), 9)


def test_good_values_come_back_after_a_device_was_away_for_a_minute() -> None:
    """Cases 7 and 10: home-assistant/core#55284, #142658, pymodbus-dev/pymodbus#1635, #1794."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.005))
        box = device(registers(4), line, links(clock), clock)
        assert flaws(await read(box)) == [Flaw.NONE]
        line.up = False
        line.open[0].hang_up()
        tries = len(line.dials)
        for _ in range(60):
            assert flaws(await read(box)) == [Flaw.TIMEOUT]
            await asyncio.sleep(1.0)
        waits = [b - a for a, b in zip(line.dials[tries:], line.dials[tries + 1 :], strict=False)]
        assert 4 <= len(waits) + 1 <= 12
        assert waits[-1] > waits[0]  # longer and longer
        assert isinstance(box.transport, ModbusTransport)
        assert box.transport.link.connects == len(line.dials)  # attempts are counted
        line.up = True
        for _ in range(19):
            await asyncio.sleep(1.0)
            scan = await read(box)
        assert flaws(scan) == [Flaw.NONE]

    in_virtual_time(main)


def test_two_links_that_lost_their_devices_together_do_not_come_back_together() -> None:
    """Case 10: jitter."""

    async def main(clock: LoopClock) -> None:
        shared = links(clock)
        lines = [Line(after(0.005)), Line(after(0.005), rtu=True)]
        boxes = [device(registers(4), line, shared, clock) for line in lines]
        for line in lines:
            line.up = False
        for _ in range(600):
            for box in boxes:
                await read(box)
            await asyncio.sleep(0.1)
        first, second = ({round(t, 1) for t in line.dials[1:]} for line in lines)
        assert len(first & second) < min(len(first), len(second))

    in_virtual_time(main)


def test_an_answer_that_a_device_server_passes_on_to_the_next_connection_is_not_taken() -> None:
    """It hung up while the unit was at work, and gave its answer to whoever came next."""
    asked: list[bytes] = []

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        asked.append(pdu)
        if len(asked) == 2:
            return [(0.1, unit, None), (0.4, unit, echoed(pdu))]
        return [(0.2, unit, echoed(pdu))]

    async def main(clock: LoopClock) -> None:
        line = Line(answers, rtu=True, queued=True)
        binding = registers(4, 300, 600, modbus={"max_hole": 0})
        box = device(binding, line, links(clock), clock)
        for _ in range(4):
            scan = await read(box)
            for value, address, flaw in zip(scan.values, (4, 300, 600), flaws(scan), strict=True):
                assert flaw is not Flaw.NONE or value == address
            await asyncio.sleep(2.0)
        assert flaws(scan) == [Flaw.NONE] * 3

    in_virtual_time(main)


def test_a_device_that_accepts_and_hangs_up_is_not_stormed() -> None:
    """Case 9: accept-then-close gave fifty connects in five seconds."""

    async def main(clock: LoopClock) -> None:
        line = Line(lambda u, _: [(0.001, u, None)])
        box = device(registers(4), line, links(clock), clock)
        for _ in range(60):
            assert flaws(await read(box)) == [Flaw.TIMEOUT]
            await asyncio.sleep(1.0)
        assert len(line.dials) <= 20

    in_virtual_time(main)


def test_a_device_that_hangs_up_after_each_answer_is_read_without_its_quirk_too() -> None:
    """Case 9: pymodbus-dev/pymodbus#2619."""

    async def main(clock: LoopClock) -> None:
        line = Line(lambda u, pdu: [(0.005, u, echoed(pdu)), (0.006, u, None)])
        box = device(registers(4, 300), line, links(clock), clock)
        for _ in range(10):
            assert flaws(await read(box)) == [Flaw.NONE, Flaw.NONE]
            await asyncio.sleep(1.0)
        assert len(line.dials) == 20

    in_virtual_time(main)


@pytest.mark.parametrize("deaf_s", [1.0, 1.5, 1.95])
def test_a_device_that_is_deaf_right_after_connecting_is_waited_for(deaf_s: float) -> None:
    """Case 9: it ignores what comes in the first 1.5 s (Huawei: 1 to 2 s)."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.005))

        def deaf(unit: int, pdu: bytes) -> Sequence[Reply]:
            early = clock.monotonic_s() - line.dials[-1] < deaf_s
            return [] if early else [(0.005, unit, echoed(pdu))]

        line.answers = deaf
        box = device(registers(4, quirks=["pause_after_connect"]), line, links(clock), clock)
        for _ in range(5):
            assert flaws(await read(box)) == [Flaw.NONE]
            await asyncio.sleep(1.0)
        assert (len(line.dials), len(line.asked)) == (1, 5)

        plain = device(registers(4), line, links(clock), clock)
        for _ in range(10):  # without its quirk it costs some looks, and no storm
            scan = await read(plain)
            await asyncio.sleep(1.0)
        assert flaws(scan) == [Flaw.NONE]
        assert len(line.dials) <= 4

    in_virtual_time(main)


@pytest.mark.parametrize("quirks", [["pause_between_requests"], []])
def test_a_device_that_ignores_what_comes_too_soon_after_its_answer_loses_nothing(
    quirks: list[str],
) -> None:
    """Case 15: eModbus/eModbus#223, ioBroker/ioBroker.modbus#39, evcc-io/evcc#10760: 50 ms."""

    async def main(clock: LoopClock) -> int:
        deaf_until_s = [0.0]

        def hasty(unit: int, pdu: bytes) -> Sequence[Reply]:
            now_s = clock.monotonic_s()
            if now_s < deaf_until_s[0]:
                return []
            deaf_until_s[0] = now_s + 0.005 + 0.05
            return [(0.005, unit, echoed(pdu))]

        line, shared = Line(hasty, rtu=True), links(clock)
        binding = registers(3, 200, 400, modbus={"max_hole": 0}, quirks=quirks)
        boxes = [device(binding, line, shared, clock, unit) for unit in (1, 2)]
        lost = 0
        for _ in range(30):
            scans = await asyncio.gather(*(read(box) for box in boxes))
            lost += sum(flaw is not Flaw.NONE for scan in scans for flaw in flaws(scan))
            await asyncio.sleep(1.0)
        return lost

    lost = in_virtual_time(main)
    assert lost == 0 if quirks else lost > 0  # the device is as bad as it is said to be


class OneClient(Line):
    """Refuses everybody while somebody is connected."""

    async def dial(self, on_data: OnData, on_lost: OnLost) -> Wire:
        self.up = not self.open
        return await super().dial(on_data, on_lost)


class Nowhere(Line):
    """Takes no notice of who wants to connect."""

    async def dial(self, on_data: OnData, on_lost: OnLost) -> Any:
        self.dials.append(asyncio.get_running_loop().time())
        await asyncio.Event().wait()


def test_a_device_of_one_client_that_is_gone_is_left_alone_like_any_other() -> None:
    """Four long tries outlasted the look, so that none of them was ever counted."""

    async def main(clock: LoopClock) -> None:
        line = Nowhere(after(0.01))
        box = device(registers(4, quirks=["single_client"]), line, links(clock), clock)
        until_s = clock.monotonic_s() + 120.0
        while clock.monotonic_s() < until_s:
            assert flaws(await read(box)) == [Flaw.TIMEOUT]
            await asyncio.sleep(1.0)
        assert len(line.dials) <= 14

    in_virtual_time(main)


class LastClient(Line):
    """Kicks whoever is connected when somebody else comes."""

    async def dial(self, on_data: OnData, on_lost: OnLost) -> Wire:
        for wire in list(self.open):
            wire.hang_up()
        return await super().dial(on_data, on_lost)


def test_a_client_that_is_kicked_by_another_reads_on_and_does_not_kick_back_at_once() -> None:
    """Case 8, where the device kicks its client instead of refusing the next one."""

    async def main(clock: LoopClock) -> None:
        line, shared = LastClient(after(0.01)), links(clock)
        boxes = [device(registers(4), line, shared, clock, u) for u in (1, 2, 3)]
        good = 0

        async def reader(place: int) -> None:
            nonlocal good
            await asyncio.sleep(place / 3)
            for _ in range(30):
                good += flaws(await read(boxes[place])) == [Flaw.NONE]
                assert len(line.open) <= 1
                await asyncio.sleep(1.0)

        async def stranger() -> None:
            for _ in range(6):
                await asyncio.sleep(5.0)
                await line.dial(lambda _: None, lambda: None)

        await asyncio.gather(*(reader(i) for i in range(3)), stranger())
        assert good >= 88
        assert len(line.dials) <= 1 + 2 * 6  # each visit costs us one connection

    in_virtual_time(main)


def test_three_units_a_write_and_an_outside_client_share_a_device_of_one_client() -> None:
    """Case 8: home-assistant/core#149494, edgexfoundry/device-modbus-go#356."""

    async def main(clock: LoopClock) -> None:
        line, shared = OneClient(after(0.01)), links(clock)
        binding = registers(4, quirks=["single_client"])
        boxes = [device(binding, line, shared, clock, u) for u in (1, 2, 3)]
        good = outside = writes = 0

        async def reader(place: int) -> None:
            nonlocal good
            await asyncio.sleep(place / 3)
            for _ in range(30):
                scan = await read(boxes[place])
                good += flaws(scan) == [Flaw.NONE]
                await asyncio.sleep(1.0)

        async def stranger() -> None:
            nonlocal outside
            for _ in range(6):
                await asyncio.sleep(5.0)
                for _ in range(10):
                    try:
                        wire = await line.dial(lambda _: None, lambda: None)
                    except ConnectionRefusedError:
                        await asyncio.sleep(0.05)
                        continue
                    await asyncio.sleep(0.3)
                    wire.close()
                    outside += 1
                    break

        async def writer() -> None:
            nonlocal writes
            for _ in range(5):
                await asyncio.sleep(3.3)
                reply = await boxes[0].transport.put(SETPOINT, (7,))
                writes += reply.outcome == "accepted"

        await asyncio.gather(*(reader(i) for i in range(3)), stranger(), writer())
        assert outside == 6
        assert writes == 5
        assert good >= 88

    in_virtual_time(main)


@pytest.mark.parametrize(
    "sick",
    [
        lambda u, pdu: [(3.0, u, echoed(pdu))],  # acknowledges after the timeout
        lambda u, pdu: [(0.01, u, None)],
        lambda u, pdu: [(0.01, u, bytes((0x99, 1, 2)))],
        lambda u, pdu: [(0.01, u, bytes((0x86, 6)))],
        lambda u, pdu: [],
    ],
    ids=["late", "hangs up", "garbled", "busy", "silent"],
)
@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_a_write_goes_out_once_whatever_comes_back(sick: object, rtu: bool) -> None:
    """Case 18, the wire's part: nothing is ever sent twice."""

    async def main(clock: LoopClock) -> None:
        line = Line(sick, rtu=rtu)  # type: ignore[arg-type]
        box = device(registers(4), line, links(clock), clock)
        reply = await box.transport.put(SETPOINT, (7,))
        assert reply.outcome in ("unanswered", "rejected")
        await asyncio.sleep(10.0)
        assert [pdu for _, pdu in line.asked] == [struct.pack(">BHH", 6, 9, 7)]

    in_virtual_time(main)


def test_a_write_goes_before_reads_that_wait() -> None:
    async def main(clock: LoopClock) -> None:
        line, shared = Line(after(0.1)), links(clock)
        binding = registers(*range(0, 400, 40), modbus={"max_hole": 0})
        boxes = [device(binding, line, shared, clock, u) for u in (1, 2, 3)]
        reads = [asyncio.create_task(read(box)) for box in boxes]
        await asyncio.sleep(0.25)
        started_s = clock.monotonic_s()
        reply = await boxes[2].transport.put(SETPOINT, (7,))
        assert reply.outcome == "accepted"
        assert clock.monotonic_s() - started_s < 0.21  # one read under way, then the write
        await asyncio.gather(*reads)
        order = [unit for unit, pdu in line.asked if pdu[0] == 3]
        assert order[:9] in ([1, 2, 3] * 3, [1, 1, 2, 3, 1, 2, 3, 1, 2])  # in a round

    in_virtual_time(main)


@pytest.mark.parametrize(("asked", "function"), [(None, 6), (6, 6), (16, 16)])
def test_a_register_is_written_with_the_function_that_the_profile_names(
    asked: int | None, function: int
) -> None:
    async def main(clock: LoopClock) -> None:
        write = {"min": "0 W", "max": "100 W", "step": "1 W"} | (
            {} if asked is None else {"function": asked}
        )
        point = {"part": "total", "kind": "power_cap", "at": {"modbus": {"address": 9}}}
        binding = binding_of(point | {"write": write})
        line = Line(after(0.01))
        box = device(binding, line, links(clock), clock)
        reply = await box.transport.put(binding.all()[0].at, (7,))
        assert reply.outcome == "accepted"
        assert line.asked[0][1][0] == function

    in_virtual_time(main)


def coils(*addresses: int, **more: object) -> object:
    return binding_of(
        *(
            {
                "part": f"outlet.{a}",
                "kind": "leak",
                "at": {"modbus": {"function": "coil", "address": a, "type": "bit"}},
            }
            for a in addresses
        ),
        **more,
    )


def test_coils_that_must_be_read_from_the_first_one_are() -> None:
    """Case 19: influxdata/telegraf#8905."""

    def fussy(unit: int, pdu: bytes) -> Sequence[Reply]:
        return [(0.01, unit, echoed(pdu) if pdu[1:3] == b"\0\0" else bytes((0x81, 2)))]

    async def main(clock: LoopClock) -> None:
        binding = coils(5, 8, quirks=["coils_from_zero"])
        box = device(binding, Line(fussy), links(clock), clock)  # type: ignore[arg-type]
        assert list((await read(box)).values) == [1.0, 0.0]

    in_virtual_time(main)


def test_a_device_that_answers_one_field_at_a_time_is_asked_so() -> None:
    """Case 19: influxdata/telegraf#12071."""

    def fussy(unit: int, pdu: bytes) -> Sequence[Reply]:
        count = struct.unpack(">H", pdu[3:5])[0]
        return [(0.01, unit, echoed(pdu) if count == 2 else bytes((0x83, 3)))]

    async def main(clock: LoopClock) -> None:
        binding = registers(0, 2, 4, kind="u32", quirks=["one_field_per_request"])
        line = Line(fussy)
        box = device(binding, line, links(clock), clock)
        assert set(flaws(await read(box))) == {Flaw.NONE}
        assert len(line.asked) == 3

    in_virtual_time(main)


def test_a_half_open_link_is_given_up_after_two_silences() -> None:
    async def main(clock: LoopClock) -> None:
        line = Line(after(0.005))
        box = device(registers(4), line, links(clock), clock)
        await read(box)
        dead = line.open[0]
        line.answers = lambda _u, _p: []
        await read(box)
        assert dead not in line.open
        line.answers = after(0.005)
        await asyncio.sleep(1.5)
        assert flaws(await read(box)) == [Flaw.NONE]
        assert isinstance(box.transport, ModbusTransport)
        assert box.transport.link.connects == 2

    in_virtual_time(main)


def test_who_gives_up_waiting_for_a_turn_loses_it_to_nobody() -> None:
    async def main(_clock: LoopClock) -> None:
        turns, order = Turns(), []

        async def hold(name: str, unit: int, *, urgent: bool = False) -> None:
            await turns.take(unit, urgent=urgent)
            try:
                order.append(name)
                await asyncio.sleep(1.0)
            finally:
                turns.give()

        tasks = [
            asyncio.create_task(hold(name, unit, urgent=name.startswith("w")))
            for name, unit in (("a", 1), ("b1", 2), ("b2", 2), ("c", 3), ("w", 1))
        ]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        await asyncio.sleep(1.6)  # the write has had its turn, and b2 has it
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["a", "w", "b2", "c"]
        assert turns.idle
        await asyncio.wait_for(turns.take(9), 1.0)

    in_virtual_time(main)


def test_the_turn_that_comes_together_with_a_cancellation_goes_on() -> None:
    async def main(_clock: LoopClock) -> None:
        turns = Turns()
        await turns.take(1)
        waiting = asyncio.create_task(turns.take(2))
        other = asyncio.create_task(turns.take(3))
        await asyncio.sleep(0.1)
        turns.give()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.wait_for(other, 1.0)
        turns.give()
        assert turns.idle

    in_virtual_time(main)
