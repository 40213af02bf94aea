"""A unit that gives nothing says why in words that tell where to look: cable, gateway or unit."""

from __future__ import annotations

import asyncio

import pytest

from facility.clock import LoopClock
from tests.drivers.modbus.lines import Answers, Line, after, device, links, read, registers
from tests.drivers.wires import in_virtual_time

CASES: dict[str, tuple[Answers, str]] = {
    "silent": (lambda unit, pdu: (), "there is a connection, but unit 7 is silent"),
    "behind a gateway": (
        lambda unit, pdu: [(0.01, unit, bytes((pdu[0] | 0x80, 11)))],
        "the gateway is there, but says that unit 7 does not answer",
    ),
    "hangs up": (
        lambda unit, pdu: [(0.01, unit, None)],
        "the other side closes the connection: it may serve one client, who is another",
    ),
    "broken": (
        lambda unit, pdu: [(0.01, unit, bytes((pdu[0] | 0x80, 4)))],
        "unit 7 answers: exception 4 (device failure)",
    ),
    "another map": (
        lambda unit, pdu: [(0.01, unit, bytes((pdu[0] | 0x80, 2)))],
        "unit 7 answers: exception 2 (illegal data address)",
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_unit_that_gives_nothing_says_why(case: str) -> None:
    answers, words = CASES[case]

    async def look(clock: LoopClock) -> tuple[str, str]:
        line = Line(answers)
        box = device(registers(1, 2), line, links(clock), clock, unit=7)
        await read(box)
        told = box.trouble
        line.answers = after(0.01)
        for _ in range(90):  # it is left alone for a while first
            await asyncio.sleep(1.0)
            await read(box)
        return told, box.trouble

    assert in_virtual_time(look) == (words, "")


def test_units_that_share_a_dead_link_all_say_that_it_is_the_link() -> None:
    async def look(clock: LoopClock) -> list[str]:
        line, shared = Line(after(0.01)), links(clock)
        line.up = False
        boxes = [device(registers(1), line, shared, clock, unit) for unit in (1, 2)]
        for box in boxes:
            await read(box)
        return [box.trouble for box in boxes]

    assert in_virtual_time(look) == ["cannot connect: refused"] * 2
