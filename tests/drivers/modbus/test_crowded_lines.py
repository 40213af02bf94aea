"""Lines that are slower than what is asked of them: everybody gets less, and nobody nothing."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Sequence

import pytest

from drivers.device import ProfiledDevice
from drivers.modbus import ModbusTransport
from drivers.modbus.transport import CUT_SHORT
from facility.clock import LoopClock
from facility.points import Flaw
from tests.drivers.modbus.lines import Line, Reply, after, device, echoed, flaws, links, registers
from tests.drivers.modbus.lines import read as look_at
from tests.drivers.wires import in_virtual_time


async def read_for(
    boxes: Sequence[ProfiledDevice], period_s: float, looks: int, clock: LoopClock
) -> list[Counter[int]]:
    """How often each register of each device was read in so many periods."""
    read: list[Counter[int]] = [Counter() for _ in boxes]

    async def reader(place: int, box: ProfiledDevice) -> None:
        start_s = clock.monotonic_s() + period_s * place / len(boxes)
        turn = 0
        while turn < looks:
            await asyncio.sleep(max(start_s + period_s * turn - clock.monotonic_s(), 0.0))
            scan = await look_at(box)
            for value, flaw in zip(scan.values, flaws(scan), strict=True):
                if flaw is Flaw.NONE:
                    read[place][int(value)] += 1
            late = int((clock.monotonic_s() - start_s) // period_s)
            turn = max(turn + 1, late)  # a turn that was missed is skipped

    await asyncio.gather(*(reader(i, box) for i, box in enumerate(boxes)))
    return read


@pytest.mark.parametrize(
    ("blocks", "request_s", "period_s"),
    [(3, 0.15, 10.0), (1, 0.3, 5.0), (6, 0.15, 5.0)],
    ids=["looks take longer than five seconds", "a round takes longer", "both"],
)
def test_thirty_units_on_a_line_at_9600_baud_are_all_read_to_the_last_block(
    blocks: int, request_s: float, period_s: float
) -> None:
    """The end of the line was never read: each look was cut off, and began at the front again."""

    async def main(clock: LoopClock) -> None:
        line, shared = Line(after(request_s), queued=True), links(clock)
        wanted = [300 * i for i in range(blocks)]
        binding = registers(*wanted, modbus={"max_hole": 0})
        boxes = [device(binding, line, shared, clock, u) for u in range(1, 31)]
        read = await read_for(boxes, period_s, round(300.0 / period_s), clock)
        counts = [counter[register] for counter in read for register in wanted]
        fair = 300.0 / (30 * blocks * request_s)  # what the line has time for
        assert min(counts) >= 0.5 * min(fair, 300.0 / period_s)
        assert sum(counts) >= 0.8 * 30 * blocks * min(fair, 300.0 / period_s)
        transport = boxes[0].transport
        assert isinstance(transport, ModbusTransport)
        assert transport.link.odd[CUT_SHORT] > 0  # and it says so

    in_virtual_time(main)


@pytest.mark.parametrize("mute", [0, 300, 600])
def test_a_block_that_a_unit_never_answers_does_not_hide_the_others(mute: int) -> None:
    """Some units say nothing where others say exception 2; the probe asked just for that block."""

    def answers(unit: int, pdu: bytes) -> Sequence[Reply]:
        address = struct.unpack(">H", pdu[1:3])[0]
        return [] if address == mute else [(0.01, unit, echoed(pdu))]

    async def main(clock: LoopClock) -> None:
        wanted = [0, 300, 600]
        binding = registers(*wanted, modbus={"max_hole": 0})
        box = device(binding, Line(answers), links(clock), clock)
        read = (await read_for([box], 5.0, 40, clock))[0]
        assert all(read[register] >= 20 for register in wanted if register != mute)
        assert read[mute] == 0

    in_virtual_time(main)


def test_a_unit_that_takes_seconds_for_each_answer_is_read_in_several_looks() -> None:
    """Its second block began within the look, ended after it, and took the first one with it."""

    async def main(clock: LoopClock) -> None:
        wanted = [0, 300, 600]
        binding = registers(*wanted, modbus={"max_hole": 0})
        box = device(binding, Line(after(2.8), queued=True), links(clock), clock)
        read = (await read_for([box], 10.0, 60, clock))[0]
        assert all(read[register] >= 10 for register in wanted)

    in_virtual_time(main)


def test_a_slow_poll_class_is_not_kept_alive_by_a_fast_one() -> None:
    """Each look of the fast class gave the slow one, under way, another five seconds."""

    async def main(clock: LoopClock) -> None:
        line = Line(after(0.5), queued=True)
        slow = device(
            registers(*range(0, 9000, 300), modbus={"max_hole": 0}), line, links(clock), clock
        )
        other = registers(7)
        fast = ProfiledDevice(other, slow.transport, clock)
        await look_at(fast)

        async def often() -> None:
            while True:
                await look_at(fast)
                await asyncio.sleep(1.0)

        task = asyncio.create_task(often())
        began_s = clock.monotonic_s()
        scan = await look_at(slow)
        task.cancel()
        assert clock.monotonic_s() - began_s < 5.9
        assert flaws(scan).count(Flaw.NONE) >= 4

    in_virtual_time(main)
