"""Agents that are slow, that restart, and that have not all of their variables at once."""

from __future__ import annotations

import random

import pytest

from drivers.profile.binding import Places
from drivers.sim import ber
from drivers.snmp.looking import ABSENT_AGAIN_S, LOOK_DEADLINE_S, STARTING_AGAIN_S
from drivers.snmp.own import MOST_BUILT, OwnReader
from drivers.snmp.walk import WALK_ROWS
from drivers.transport import Links
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.snmp.rig import COLUMN, V1, agent, at, echoed, integer, numbers, same, table


class LaterClock(SystemClock):
    """The machine's clock, put forward."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


async def test_a_slow_agent_of_small_answers_is_not_left_alone_like_a_dead_one() -> None:
    """It was backed off from, to 15 s, and its last rows were never read."""
    clock, answer = LaterClock(), table(numbers(12))

    def slow(request: ber.Request) -> bytes | None:
        if len(request.variables) > 1:
            return echoed(request, 1, 0)
        clock.later_s += LOOK_DEADLINE_S / 4.5  # five of them fit
        return answer(request)

    async with agent(slow, shared=Links(clock)) as (snmp, _):
        places = Places(tuple(at(i) for i in range(12)))
        seen: set[int] = set()
        for _ in range(4):
            good = [a for a in await snmp.fetch(places) if not isinstance(a, Flaw)]
            assert len(good) >= 3, "it answers, so it is asked"
            seen.update(a for a in good if isinstance(a, int))
        assert seen == set(range(12)), "each gets its turn"


async def test_what_a_starting_agent_refused_is_there_soon_after() -> None:
    """A v1 agent whose tables come up after its system group: ten minutes without its values."""
    clock, values = LaterClock(), numbers(2)
    answer = table(values)

    def starting(request: ber.Request) -> bytes | None:
        for index, (name, _, _) in enumerate(request.variables, start=1):
            if name not in values:
                return echoed(request, 2, index)
        return answer(request)

    async with agent(starting, V1, shared=Links(clock)) as (snmp, wire_):
        places = Places((at(1), at(9)))
        assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
        values[(*COLUMN, 9)] = integer(9)
        clock.later_s += STARTING_AGAIN_S + 1.0
        assert same(await snmp.fetch(places), (1, 9))
        del values[(*COLUMN, 9)]
        wire_.asked.clear()
        for _ in range(int(ABSENT_AGAIN_S / 2.0)):
            assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
            clock.later_s += 2.0
        assert len(wire_.asked) < ABSENT_AGAIN_S / 2.0 + 20, "one that never comes costs little"


async def test_after_a_silence_what_was_refused_for_long_is_asked_for_again() -> None:
    clock, values = LaterClock(), numbers(2)
    answer = table(values)
    alive = True

    def mood(request: ber.Request) -> bytes | None:
        if not alive:
            return None
        for index, (name, _, _) in enumerate(request.variables, start=1):
            if name not in values:
                return echoed(request, 2, index)
        return answer(request)

    async with agent(mood, V1, shared=Links(clock, timeout_s=0.05)) as (snmp, _):
        places = Places((at(1), at(9)))
        for _ in range(9):
            assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
            clock.later_s += ABSENT_AGAIN_S
        assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
        alive = False
        await snmp.fetch(places)
        alive, values[(*COLUMN, 9)] = True, integer(9)
        clock.later_s += STARTING_AGAIN_S + 1.0
        assert same(await snmp.fetch(places), (1, 9))


async def test_a_walk_goes_on_where_an_earlier_one_had_to_stop() -> None:
    async with agent(table(numbers(9))) as (snmp, _):
        first = await snmp.walk(COLUMN, (*COLUMN, 4), 5.0)
        assert [name[-1] for name in first.names] == [5, 6, 7, 8]
        assert (await snmp.walk(COLUMN, (*COLUMN, 8))).why == ""


async def test_an_agent_with_thousands_of_rows_an_answer_fills_no_memory() -> None:
    """A million names in ten seconds."""
    count = 0

    def huge(request: ber.Request) -> bytes:
        nonlocal count
        count += 2500
        return ber.response(request, [((*COLUMN, count + i), integer(1)) for i in range(2500)])

    async with agent(huge, timeout_s=2.0) as (snmp, _):
        walked = await snmp.walk(COLUMN)
        assert (len(walked.names), walked.why) == (WALK_ROWS, "too many rows")


async def test_an_agent_in_ever_other_trouble_takes_no_memory() -> None:
    """Each error cut the question in another way, and each way was kept for good."""
    rng, clock, answer = random.Random(1), LaterClock(), table(numbers(40))

    def moody(request: ber.Request) -> bytes | None:
        size = len(request.variables)
        if size > 1 and rng.random() < 0.7:
            return echoed(request, 5, rng.randrange(1, size + 1))
        return answer(request)

    async with agent(moody, shared=Links(clock)) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(40)))
        for _ in range(200):
            await snmp.fetch(places)
            clock.later_s += 2.0
        assert len(wire_.asked) > 2 * MOST_BUILT
        assert isinstance(snmp._reader, OwnReader)
        assert len(snmp._reader._built) <= MOST_BUILT


async def test_an_agent_that_refuses_everything_is_not_asked_for_each_thing_again() -> None:
    """Error without index: two requests for each variable, every five seconds."""
    clock, started = LaterClock(), False
    answer = table(numbers(40))

    def barren(request: ber.Request) -> bytes | None:
        return answer(request) if started else echoed(request, 5, 0)

    async with agent(barren, shared=Links(clock)) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(40)))
        for _ in range(60):
            assert same(await snmp.fetch(places), [Flaw.DEVICE_FAULT] * 40)
            clock.later_s += 2.0
        assert len(wire_.asked) < 120 * 5
        started = True
        clock.later_s += STARTING_AGAIN_S
        assert same(await snmp.fetch(places), range(40)), "but it is heard when it has come up"


async def test_a_dead_agent_that_refused_everything_is_silent_and_not_refusing() -> None:
    clock, alive = LaterClock(), True

    def barren(request: ber.Request) -> bytes | None:
        return echoed(request, 2, 0) if alive else None

    async with agent(barren, shared=Links(clock, timeout_s=0.05)) as (snmp, _):
        places = Places((at(0), at(1)))
        for _ in range(60):
            assert same(await snmp.fetch(places), [Flaw.REFUSED] * 2)
            clock.later_s += 2.0
        alive = False
        clock.later_s += STARTING_AGAIN_S
        await snmp.fetch(places)
        clock.later_s += STARTING_AGAIN_S
        assert same(await snmp.fetch(places), [Flaw.TIMEOUT] * 2)


async def test_a_variable_without_value_does_not_hide_that_an_answer_was_cut_short() -> None:
    values = numbers(20) | {(*COLUMN, 2): ber.Value(ber.NULL)}

    def short(request: ber.Request) -> bytes:
        return ber.response(request, [(n, values[n]) for n, _, _ in request.variables][:6])

    async with agent(short) as (snmp, _):
        expected = [0, 1, Flaw.UNDECODABLE, *range(3, 20)]
        assert same(await snmp.fetch(Places(tuple(at(i) for i in range(20)))), expected)


@pytest.mark.parametrize("turned", [False, True])
async def test_one_name_with_two_values_has_none(turned: bool) -> None:
    def twice(request: ber.Request) -> bytes:
        rows = [(n, integer(n[-1])) for n, _, _ in request.variables]
        rows += [(rows[0][0], integer(777)), rows[1]]
        return ber.response(request, rows[::-1] if turned else rows)

    async with agent(twice) as (snmp, _):
        expected = [Flaw.UNDECODABLE, 1, 2, 3]
        assert same(await snmp.fetch(Places(tuple(at(i) for i in range(4)))), expected)
