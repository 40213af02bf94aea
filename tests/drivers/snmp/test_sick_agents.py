"""Agents as they are found in the field; each test is named after what was seen."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import AsyncExitStack

import pytest

from drivers.address import Address
from drivers.credentials import Credentials
from drivers.profile import SnmpWhere
from drivers.profile.binding import Places, SnmpAt
from drivers.sim import ber
from drivers.snmp import SnmpTransport
from drivers.snmp.agreement import disagreements
from drivers.snmp.looking import ABSENT_AGAIN_S, GROW_AGAIN_S, STARTING_AGAIN_S
from drivers.snmp.walk import REPETITIONS
from drivers.transport import Links
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.snmp.rig import (
    COLUMN,
    V1,
    Oid,
    Respond,
    agent,
    at,
    echoed,
    integer,
    numbers,
    rows_of,
    same,
    table,
    text,
    wire,
)
from tests.drivers.wires import links, looked


class LaterClock(SystemClock):
    """The machine's clock, put forward."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


def strict(values: dict[Oid, ber.Value], status: int = 2) -> Respond:
    """An agent that refuses a whole request for one variable that it has not."""
    answer = table(values)

    def respond(request: ber.Request) -> bytes | None:
        for index, (name, _, _) in enumerate(request.variables, start=1):
            if request.kind == ber.GET and name not in values:
                return echoed(request, status, index)
        return answer(request)

    return respond


async def test_one_slow_agent_delays_none_of_the_others() -> None:
    """Case 20, the wire's part: 49 answer at once, one never (all of it: test_slow_agents)."""
    shared, answer = links(0.5), table(numbers(4))
    moods: list[Respond] = [answer] * 49 + [lambda _request: None]
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire(mood)) for mood in moods]
        agents = [
            SnmpTransport(Address("snmp", "127.0.0.1", w.port), shared, Credentials())
            for w in wires
        ]
        loop = asyncio.get_running_loop()
        took: list[float] = []

        async def look(snmp: SnmpTransport) -> None:
            began = loop.time()
            await snmp.fetch(Places((at(1), at(2))))
            took.append(loop.time() - began)

        await asyncio.gather(*(look(snmp) for snmp in agents))
        assert took[48] < 0.5 * took[49]
        assert took[49] < 3.0  # its own bound: one request, and one short one asked twice
        for snmp in agents:
            await snmp.close()


@pytest.mark.parametrize("nothing", [ber.NO_SUCH_INSTANCE, 0x80, ber.NULL, ber.END_OF_MIB_VIEW])
async def test_absent_columns_inside_an_answer_are_bad_alone(nothing: int) -> None:
    """Case 21: prometheus/snmp_exporter#1080: never 0, and the rest stays good."""
    values = numbers(6) | {(*COLUMN, 3): ber.Value(nothing)}
    async with agent(table(values)) as (snmp, _):
        seen = await looked(snmp, [at(i) for i in range(6)])
        assert isinstance(seen[at(3)], Flaw)
        assert [seen[at(i)] for i in (0, 1, 2, 4, 5)] == [0, 1, 2, 4, 5]
        walked = await snmp.walk(COLUMN)
        assert [n[-1] for n in walked.names] == list(range(6))
        assert isinstance(walked.answers[3], Flaw)


async def test_values_that_depend_on_how_many_rows_are_asked_for_are_found_out() -> None:
    """Case 22: prometheus/snmp_exporter#541: HPE PDUs whose walk says something else."""
    answer = table(numbers(5))

    def fickle(request: ber.Request) -> bytes | None:
        if request.kind == ber.GET_BULK and request.second > 1:
            rows = [((*COLUMN, i), integer(7000)) for i in range(5)]
            return ber.response(request, [*rows, ((*COLUMN[:-1], 2, 0), integer(0))])
        return answer(request)

    column = SnmpWhere(oid=COLUMN, index=("row",))
    places = [SnmpAt(column, (*COLUMN, i)) for i in range(5)]
    async with agent(fickle) as (snmp, _):
        found = await disagreements(snmp, places)
        assert found is not None
        assert [(d.name[-1], d.get, d.bulk) for d in found] == [(i, i, 7000) for i in range(5)]
    async with agent(answer) as (snmp, _):
        assert await disagreements(snmp, places) == ()


async def test_an_agent_without_getbulk_is_walked_with_getnext_and_remembered() -> None:
    """Case 23: prometheus/snmp_exporter#469: CyberPower and Emerson drop PDU type 0xA5."""
    answer = table(numbers(4))

    def deaf(request: ber.Request) -> bytes | None:
        return None if request.kind == ber.GET_BULK else answer(request)

    async with agent(deaf, timeout_s=0.25) as (snmp, wire_):
        for _ in range(2):
            assert await rows_of(snmp) == (0, 1, 2, 3)
        assert [r.second for r in wire_.asked if r.kind == ber.GET_BULK] == [REPETITIONS, 1]
        assert not snmp.bulk


@pytest.mark.parametrize("silent", [True, False])
async def test_rows_at_once_are_halved_until_the_agent_answers_and_remembered(
    *, silent: bool
) -> None:
    """Case 24: prometheus/snmp_exporter#756, #617, #1236: silent or tooBig above ten rows."""
    answer = table(numbers(30))

    def small(request: ber.Request) -> bytes | None:
        if request.kind == ber.GET_BULK and request.second > 10:
            return None if silent else echoed(request, 1, 0)
        return answer(request)

    async with agent(small, timeout_s=0.25) as (snmp, wire_):
        assert await rows_of(snmp) == tuple(range(30))
        tried = [r.second for r in wire_.asked if r.kind == ber.GET_BULK]
        assert tried[:4] == ([24, 1, 12, 6] if silent else [24, 12, 6, 6])
        wire_.asked.clear()
        assert await rows_of(snmp) == tuple(range(30))
        assert {r.second for r in wire_.asked} == {6}


async def test_a_ups_that_answers_getbulk_with_one_row_shows_all_its_phases() -> None:
    """Case 25: Uninett/nav#1487."""
    values = {(*COLUMN, phase): integer(230 + phase) for phase in (1, 2, 3)}
    async with agent(table(values, per_bulk=1)) as (snmp, _):
        assert (await snmp.walk(COLUMN)).answers == (231, 232, 233)


async def test_a_walk_of_an_agent_that_dies_ends_with_a_reason() -> None:
    """Case 26: lextudio/pysnmp#66, exhuma/puresnmp#94: dead in the middle."""
    answer = table(numbers(200), per_bulk=5)
    asked: list[int] = []

    def dies(request: ber.Request) -> bytes | None:
        asked.append(request.id)
        return answer(request) if len(asked) <= 3 else None

    async with agent(dies, timeout_s=0.1) as (snmp, _):
        walked = await snmp.walk(COLUMN)
        assert (len(walked.names), walked.why, walked.silent) == (15, "no answer", False)


@pytest.mark.parametrize("back", [0, 1])
async def test_a_walk_over_names_that_do_not_rise_ends_with_a_reason(back: int) -> None:
    """Case 26: easysnmp/easysnmp#205: names that turn in a circle."""

    def loops(request: ber.Request) -> bytes:
        names = [(*COLUMN, 5), (*COLUMN, 6), (*COLUMN, 6 - back)]
        return ber.response(request, [(name, integer(1)) for name in names])

    async with agent(loops) as (snmp, wire_):
        walked = await snmp.walk(COLUMN)
        assert (len(walked.names), walked.why) == (2, "names that do not rise")
        assert len(wire_.asked) == 1


async def test_an_endless_walk_ends_at_its_bound() -> None:
    """Case 26: names that rise for ever."""
    count = 0

    def endless(request: ber.Request) -> bytes:
        nonlocal count
        count += 1
        return ber.response(request, [((*COLUMN, count), integer(1))])

    async with agent(endless) as (snmp, _):
        walked = await snmp.walk(COLUMN)
        assert walked.why in ("too many requests", "too slow")
        assert len(walked.names) == count <= 512


async def test_a_v1_agent_that_lacks_one_variable_still_gives_the_others() -> None:
    """Case 27: AthenaNetworks/mymate#25: noSuchName fails the whole request; drop it, remember."""
    async with agent(strict(numbers(5)), V1) as (snmp, wire_):
        places = Places(tuple(at(i) for i in (0, 1, 77, 3, 78)))
        expected = (0, 1, Flaw.REFUSED, 3, Flaw.REFUSED)
        assert same(await snmp.fetch(places), expected)
        assert wire_.sizes() == [5, 4, 3] or len(wire_.asked) <= 5
        wire_.asked.clear()
        assert same(await snmp.fetch(places), expected)
        assert wire_.sizes() == [3]  # what it has not is not asked for again and again
        assert await rows_of(snmp) == (0, 1, 2, 3, 4)
        assert not [r for r in wire_.asked if r.kind == ber.GET_BULK]


async def test_what_was_refused_is_tried_again_after_a_while() -> None:
    values = numbers(3)
    clock = LaterClock()
    async with agent(strict(values), V1, shared=Links(clock)) as (snmp, _):
        places = Places((at(1), at(9)))
        assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
        values[(*COLUMN, 9)] = integer(9)  # a firmware update brought it
        assert same(await snmp.fetch(places), (1, Flaw.REFUSED))
        clock.later_s = ABSENT_AGAIN_S + 1.0
        assert same(await snmp.fetch(places), (1, 9))


async def test_an_agent_in_trouble_over_one_variable_gives_the_others() -> None:
    async with agent(strict(numbers(5), status=5)) as (snmp, _):
        seen = await looked(snmp, [at(0), at(77), at(4)])
        assert same(seen.values(), [0, Flaw.DEVICE_FAULT, 4])


async def test_an_error_that_names_no_variable_is_narrowed_down() -> None:
    answer = table(numbers(8))

    def vague(request: ber.Request) -> bytes | None:
        names = [name for name, _, _ in request.variables]
        return echoed(request, 5, 0) if (*COLUMN, 77) in names else answer(request)

    async with agent(vague) as (snmp, _):
        seen = await looked(snmp, [at(i) for i in (0, 1, 2, 77, 4, 5, 6, 7)])
        assert same(seen.values(), [0, 1, 2, Flaw.DEVICE_FAULT, 4, 5, 6, 7])


async def test_values_beside_an_error_are_no_values() -> None:
    """An agent that fails and leaves old numbers in its answer (gufo-snmp takes them)."""

    def failing(request: ber.Request) -> bytes:
        return ber.response(request, [(n, integer(7)) for n, _, _ in request.variables], 5, 0)

    async with agent(failing) as (snmp, _):
        seen = await looked(snmp, [at(1), at(2)])
        assert same(seen.values(), [Flaw.DEVICE_FAULT] * 2)


async def test_zero_is_good_and_absence_is_bad() -> None:
    """Case 28: nagios-plugins#679, Uninett/nav#714, librenms/librenms#2134."""
    async with agent(table({(*COLUMN, 1): integer(0)})) as (snmp, _):
        assert same(await snmp.fetch(Places((at(1), at(2)))), (0, Flaw.REFUSED))


@pytest.mark.parametrize("silent", [True, False])
async def test_variables_at_once_are_halved_until_the_agent_answers_and_remembered(
    *, silent: bool
) -> None:
    answer = table(numbers(40))

    def small(request: ber.Request) -> bytes | None:
        if len(request.variables) > 12:
            return None if silent else echoed(request, 1, 0)
        return answer(request)

    async with agent(small, timeout_s=0.25) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(40)))
        assert same(await snmp.fetch(places), tuple(range(40)))
        wire_.asked.clear()
        assert same(await snmp.fetch(places), tuple(range(40)))
        assert wire_.sizes() == [10, 10, 10, 10]


async def test_a_link_that_lost_requests_once_does_not_cost_small_requests_for_ever() -> None:
    """What was lowered by losses grows again, a step a look, and all at once is kept."""
    answer, clock, lossy = table(numbers(40)), LaterClock(), True

    def respond(request: ber.Request) -> bytes | None:
        return None if lossy and len(request.variables) > 6 else answer(request)

    shared = Links(clock, timeout_s=0.1)
    async with agent(respond, shared=shared) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(40)))
        assert same(await snmp.fetch(places), tuple(range(40)))
        lossy = False
        looks = []
        for later_s in (0.0, GROW_AGAIN_S + 1.0, 0.0, 0.0, 0.0):
            clock.later_s += later_s
            wire_.asked.clear()
            assert same(await snmp.fetch(places), tuple(range(40)))
            looks.append(wire_.sizes())
        assert looks == [[5] * 8, [10] * 4, [20] * 2, [40], [40]]


async def test_an_agent_that_never_takes_more_is_asked_for_more_ever_less_often() -> None:
    answer, clock = table(numbers(40)), LaterClock()

    def small(request: ber.Request) -> bytes | None:
        return echoed(request, 1, 0) if len(request.variables) > 12 else answer(request)

    async with agent(small, shared=Links(clock, timeout_s=0.1)) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(40)))
        tried = []
        for minute in range(240):
            clock.later_s = 60.0 * minute
            wire_.asked.clear()
            assert same(await snmp.fetch(places), tuple(range(40)))
            tried += [minute] * (max(wire_.sizes()) > 10)
        assert tried == [0, 10, 20, 40, 80, 160]


async def test_an_agent_that_cuts_its_answer_short_is_asked_for_the_rest() -> None:
    answer = table(numbers(20))

    def cuts(request: ber.Request) -> bytes | None:
        asked = request.variables[:8]
        return answer(ber.Request(request.community, request.kind, request.id, 0, 0, asked))

    async with agent(cuts) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(20)))
        assert same(await snmp.fetch(places), tuple(range(20)))
        wire_.asked.clear()
        assert same(await snmp.fetch(places), tuple(range(20)))
        assert wire_.sizes() == [8, 8, 4]


async def test_an_agent_slower_than_one_timeout_is_read_all_the_same() -> None:
    answer = table(numbers(3))
    loop = asyncio.get_running_loop()
    async with agent(lambda _r: None, timeout_s=0.4) as (snmp, wire_):

        def late(request: ber.Request) -> None:
            to = wire_.asked_from
            loop.call_later(0.6, wire_.transport.sendto, answer(request), to)

        wire_.respond = late
        assert (await looked(snmp, [at(2)]))[at(2)] == 2


async def test_an_answer_to_an_earlier_question_is_not_taken_for_this_one() -> None:
    answer = table(numbers(9))
    kept: list[bytes] = []

    def one_behind(request: ber.Request) -> bytes | None:
        kept.append(answer(request) or b"")
        return kept[-2] if len(kept) > 1 else None

    async with agent(one_behind, timeout_s=0.1) as (snmp, _):
        for i in (1, 2, 3):
            snmp._patience.answered()
            assert (await looked(snmp, [at(i)]))[at(i)] in (i, Flaw.TIMEOUT)


async def test_an_answer_from_somebody_else_is_not_taken() -> None:
    answer = table(numbers(3))
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    async with agent(lambda _r: None, timeout_s=0.1) as (snmp, wire_):

        def forged(request: ber.Request) -> None:
            other.sendto(answer(request) or b"", wire_.asked_from)

        wire_.respond = forged
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT
    other.close()


async def test_an_answer_of_another_community_is_not_taken() -> None:
    answer = table(numbers(3))
    async with agent(lambda r: (answer(r) or b"").replace(b"public", b"pubLic"), timeout_s=0.1) as (
        snmp,
        _,
    ):
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT


async def test_an_agent_that_comes_back_is_read_again() -> None:
    answer = table(numbers(3))
    alive = False
    async with agent(lambda r: answer(r) if alive else None, timeout_s=0.05) as (snmp, _):
        assert (await looked(snmp, [at(2)]))[at(2)] is Flaw.TIMEOUT
        alive = True
        snmp._patience.answered()  # its back-off is another test's business
        assert (await looked(snmp, [at(2)]))[at(2)] == 2


async def test_tenths_are_not_rounded_away() -> None:
    """Case 31, the wire's part: 229 stays what the agent sent, whichever way it sends it."""
    async with agent(table({(*COLUMN, 1): integer(229), (*COLUMN, 2): text("22.9")})) as (snmp, _):
        assert same(await snmp.fetch(Places((at(1), at(2)))), (229, b"22.9"))


async def test_a_host_that_nobody_knows_is_a_timeout_and_says_so() -> None:
    snmp = SnmpTransport(Address("snmp", "no-such-host.invalid", 161), links(0.3), Credentials())
    assert same(await snmp.fetch(Places((at(1),))), (Flaw.TIMEOUT,))
    assert "no-such-host.invalid" in snmp.trouble
    await snmp.close()


async def test_ten_thousand_requests_take_no_memory_and_no_descriptors() -> None:
    """Case 32: etingof/pysnmp#402, lextudio/pysnmp#237, etingof/pysnmp#255."""
    shared = links(1.0)
    async with wire(table(numbers(3))) as fast:
        snmp = SnmpTransport(Address("snmp", "127.0.0.1", fast.port), shared, Credentials())
        places = Places(tuple(at(i) for i in range(3)))

        async def many(count: int) -> None:
            for _ in range(count):
                assert same(await snmp.fetch(places), (0, 1, 2))
                fast.asked.clear()

        await many(500)
        descriptors = len(os.listdir("/proc/self/fd"))
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await many(10_000)
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 5 * 1024
        await snmp.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors - 1


async def test_all_agents_of_a_process_share_one_socket() -> None:
    shared = links(0.02)
    async with wire(table(numbers(3))) as fast:
        before = len(os.listdir("/proc/self/fd"))
        many = [
            SnmpTransport(Address("snmp", f"127.0.1.{i}", fast.port), shared, Credentials())
            for i in range(1, 31)
        ]
        await asyncio.gather(*(snmp.fetch(Places((at(1),))) for snmp in many))
        assert len(os.listdir("/proc/self/fd")) == before + 1
        for snmp in many:
            await snmp.close()
        assert len(os.listdir("/proc/self/fd")) == before
        await many[0].get(COLUMN)  # who asks again takes hold of it again
        await many[0].close()
        assert len(os.listdir("/proc/self/fd")) == before


async def test_one_agent_under_two_names_answers_both() -> None:
    shared = links(0.3)
    async with wire(table(numbers(3))) as fast:
        hosts = ("127.0.0.1", "127.1")
        both = [SnmpTransport(Address("snmp", h, fast.port), shared, Credentials()) for h in hosts]
        for _ in range(3):
            seen = await asyncio.gather(*(snmp.fetch(Places((at(2),))) for snmp in both))
            assert [same(answers, (2,)) for answers in seen] == [True, True]
        assert len(fast.asked) == 6  # neither had to ask again
        for snmp in both:
            await snmp.close()


async def test_a_look_that_is_cancelled_leaves_nothing_behind() -> None:
    answer = table(numbers(3))
    async with agent(lambda _r: None) as (snmp, wire_):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await snmp.fetch(Places((at(1),)))
        wire_.respond = answer
        assert same(await snmp.fetch(Places((at(2),))), (2,))


async def test_a_name_with_two_addresses_is_read_at_the_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with wire(table(numbers(3))) as fast:
        there = [
            (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", fast.port, 0, 0)),
            (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", fast.port)),
        ]

        def resolved(*_args: object, **_more: object) -> list[object]:
            return list(there)

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        address = Address("snmp", "pdu.invalid", fast.port)
        snmp = SnmpTransport(address, links(0.05), Credentials())
        assert same(await snmp.fetch(Places((at(2),))), (Flaw.TIMEOUT,))
        snmp._patience.answered()
        assert same(await snmp.fetch(Places((at(2),))), (2,))
        await snmp.close()


async def test_an_agent_that_refuses_everything_while_it_starts_is_not_taken_at_its_word() -> None:
    answer = table(numbers(5))
    started = False

    def starting(request: ber.Request) -> bytes | None:
        return answer(request) if started else echoed(request, 5, 1)

    clock = LaterClock()
    async with agent(starting, shared=Links(clock)) as (snmp, wire_):
        places = Places(tuple(at(i) for i in range(5)))
        for _ in range(3):
            assert same(await snmp.fetch(places), [Flaw.DEVICE_FAULT] * 5)
        assert len(wire_.asked) == 5
        started, clock.later_s = True, STARTING_AGAIN_S + 1.0
        assert same(await snmp.fetch(places), range(5))
