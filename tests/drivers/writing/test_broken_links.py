"""Writes over links that are busy, slow, broken or behind a gateway; in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.modbus.wire import OnData, OnLost
from facility.clock import LoopClock
from facility.commands import Ack, Command, Outcome
from facility.points import PointId
from tests.drivers.modbus.lines import Answers, Line, Reply, device, links
from tests.drivers.wires import binding_of, in_virtual_time

POINT = PointId("d", "loop", "supply_setpoint")
BINDING = binding_of(
    {
        "part": "loop",
        "kind": "supply_setpoint",
        "at": {"modbus": {"address": 0, "type": "s16"}},
        "scale": 0.1,
        "write": {"min": "15 degC", "max": "60 degC", "step": "0.5 K", "settle": "50 ms"},
    }
)
WANTED, RAW = 50.0, 500


class Register:
    """A register behind a line; `say` is what it answers to a write that it has taken or not."""

    def __init__(self, *, takes: bool = True, say: int | None = 0, delay_s: float = 0.01) -> None:
        self.takes, self.say, self.delay_s = takes, say, delay_s
        self.value, self.writes = 300, 0

    def __call__(self, unit: int, pdu: bytes) -> Sequence[Reply]:
        if pdu[0] == 3:
            return [(self.delay_s, unit, bytes((3, 2)) + self.value.to_bytes(2, "big"))]
        self.writes += 1
        if self.takes:
            self.value = int.from_bytes(pdu[3:5], "big")
        if self.say is None:
            return []
        return [(self.delay_s, unit, bytes((0x86, self.say)) if self.say else pdu)]


class SlowToDial(Line):
    """Takes a while to connect to."""

    def __init__(self, answers: Answers, dial_s: float) -> None:
        super().__init__(answers)
        self.dial_s = dial_s

    async def dial(self, on_data: OnData, on_lost: OnLost) -> Any:
        await asyncio.sleep(self.dial_s)
        return await super().dial(on_data, on_lost)


def ask(clock: LoopClock, deadline_s: float = 2.0, value: float = WANTED) -> Command:
    return Command(POINT, value, 1, 1, clock.utc_ms(), deadline_s, "test")


def link_of(box: ProfiledDevice) -> ModbusTransport:
    assert isinstance(box.transport, ModbusTransport)
    return box.transport


@pytest.mark.parametrize("set_back_s", [0, 3600])
def test_a_write_whose_turn_comes_after_its_deadline_is_never_sent(set_back_s: int) -> None:
    """It waited for the line, for a connection, or for a clock that was set back, and went out."""

    async def main(clock: LoopClock) -> None:
        register = Register()
        box = device(BINDING, Line(register), links(clock), clock)
        turns = link_of(box).link.turns
        await turns.take(9)
        sent = asyncio.create_task(box.write(ask(clock)))
        await asyncio.sleep(0.1)
        clock.epoch_ms -= 1000 * set_back_s
        await asyncio.sleep(3.0)
        turns.give()
        ack = await sent
        assert ack.outcome is Outcome.REJECTED
        assert "deadline" in ack.detail
        await asyncio.sleep(10.0)
        assert register.writes == 0

    in_virtual_time(main)


def test_a_write_that_had_to_connect_for_too_long_is_never_sent() -> None:
    async def main(clock: LoopClock) -> None:
        register = Register()
        line = SlowToDial(register, dial_s=1.5)
        box = device(BINDING, line, links(clock), clock)
        ack = await box.write(ask(clock, deadline_s=1.0))
        assert ack.outcome is Outcome.REJECTED
        assert register.writes == 0
        assert (await box.write(ask(clock, deadline_s=10.0))).outcome is Outcome.APPLIED

    in_virtual_time(main)


def test_a_write_on_a_crowded_line_does_not_wait_for_the_reads_before_it() -> None:
    """What stood there before was read first, in a queue of thirty, until it was too late."""

    async def main(clock: LoopClock) -> None:
        register, shared = Register(delay_s=0.3), links(clock)
        line = Line(register, queued=True)
        boxes = [device(BINDING, line, shared, clock, unit) for unit in range(1, 31)]
        reads = [asyncio.create_task(box.read(box.layouts[0])) for box in boxes]
        await asyncio.sleep(0.5)
        ack = await boxes[29].write(ask(clock))
        assert ack.outcome is Outcome.APPLIED
        assert register.writes == 1
        await asyncio.gather(*reads)

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("takes", "say", "outcome"),
    [
        (True, 5, Outcome.APPLIED),  # "acknowledge": it takes its time
        (False, 5, Outcome.REJECTED),
        (True, 11, Outcome.APPLIED),  # the gateway heard nothing, but the unit had taken it
        (False, 11, Outcome.UNANSWERED),
        (False, 10, Outcome.REJECTED),  # the gateway never sent it
        (False, 6, Outcome.REJECTED),
    ],
)
def test_a_write_is_no_refusal_where_the_gateway_or_the_unit_does_not_say_no(
    takes: bool, say: int, outcome: Outcome
) -> None:
    async def main(clock: LoopClock) -> None:
        register = Register(takes=takes, say=say)
        box = device(BINDING, Line(register), links(clock), clock)
        ack = await box.write(ask(clock, deadline_s=0.3))
        assert ack.outcome is outcome
        assert ack.actual == pytest.approx(50.0 if takes else 30.0)
        assert register.writes == (2 if say == 11 and not takes else 1)  # read back in between

    in_virtual_time(main)


def test_a_write_to_a_unit_that_was_away_is_read_back_at_once() -> None:
    """It was acknowledged, and "could not be read back": its reads were still being put off."""

    async def main(clock: LoopClock) -> None:
        register = Register()
        line = Line(lambda unit, pdu: [])
        box = device(BINDING, line, links(clock), clock)
        for _ in range(40):
            await box.read(box.layouts[0])
            await asyncio.sleep(1.0)
        line.answers = register
        ack = await box.write(ask(clock))
        assert ack.outcome is Outcome.APPLIED
        assert ack.actual == pytest.approx(50.0)

    in_virtual_time(main)


def test_two_writes_to_one_point_at_once_are_done_one_after_the_other() -> None:
    async def main(clock: LoopClock) -> None:
        register = Register()
        box = device(BINDING, Line(register), links(clock), clock)
        acks = await asyncio.gather(
            box.write(ask(clock, value=40.0)), box.write(ask(clock, value=50.0))
        )
        assert [ack.actual for ack in acks] == pytest.approx([40.0, 50.0])
        assert all(ack.outcome is Outcome.APPLIED for ack in acks)
        assert register.writes == 2

    in_virtual_time(main)


@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_a_late_refusal_of_one_write_is_not_taken_for_that_of_the_next(rtu: bool) -> None:
    async def main(clock: LoopClock) -> None:
        register = Register()
        late = [True]

        def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
            if pdu[0] == 6 and late.pop():
                late.append(False)
                return [(1.6, unit, bytes((0x86, 4)))]
            if pdu[0] == 6:
                late.append(False)
                register.value = int.from_bytes(pdu[3:5], "big")
                return [(0.9, unit, pdu)]
            return register(unit, pdu)

        line = Line(answers, rtu=rtu)
        box = device(BINDING, line, links(clock), clock)
        put = box.transport.put
        at = BINDING.all()[0].at
        assert (await put(at, (400,))).outcome == "unanswered"
        assert (await put(at, (500,))).outcome != "rejected"

    in_virtual_time(main)


def trouble(rng: random.Random, register: Register, frames: list[float]) -> Answers:
    """A register behind a link that loses requests and answers, hangs up and is late."""

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        if pdu[0] == 6:
            frames.append(asyncio.get_running_loop().time())
        fate = rng.random()
        if fate < 0.15:
            return []  # the request is lost
        replies = list(register(unit, pdu))
        if fate < 0.3:
            return []  # the answer is lost
        if fate < 0.4:
            return [(0.005, unit, None)]
        if fate < 0.5:
            return [(2.5, who, reply) for _, who, reply in replies]
        return replies

    return answers


@pytest.mark.parametrize("rtu", [False, True], ids=["tcp", "rtu"])
def test_whatever_breaks_a_write_is_sent_twice_at_most_and_never_late_or_called_applied(
    rtu: bool,
) -> None:
    async def one(clock: LoopClock, seed: int) -> Ack:
        rng, frames = random.Random(seed), list[float]()
        register = Register(takes=rng.random() < 0.7)
        box = device(BINDING, Line(trouble(rng, register, frames), rtu=rtu), links(clock), clock)
        began_s = clock.monotonic_s()
        ack = await box.write(ask(clock))
        assert len(frames) <= 2
        assert all(at_s - began_s <= 2.0 + 1e-6 for at_s in frames)
        if ack.outcome is Outcome.APPLIED:
            assert register.value == RAW
        if ack.outcome is Outcome.REJECTED:
            assert register.value == 300
        return ack

    async def main(clock: LoopClock) -> None:
        outcomes = {(await one(clock, seed)).outcome for seed in range(150)}
        assert outcomes >= {Outcome.APPLIED, Outcome.UNANSWERED}

    in_virtual_time(main)
