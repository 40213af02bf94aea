"""SNMP against our own small agent in all its moods; real recordings play in test_conformance."""

from __future__ import annotations

import random

import pytest

from drivers.sim import ber
from facility.points import Flaw
from tests.drivers.snmp.rig import COLUMN, agent, at, integer, numbers, rows_of, table
from tests.drivers.wires import looked, same

ROWS = {(*COLUMN, i): integer(10 * i) for i in (1, 2, 3)}


async def test_zero_is_a_value_and_absence_is_not() -> None:
    async with agent(table({(*COLUMN, 1): integer(0)})) as (snmp, _):
        seen = await looked(snmp, [at(1), at(2)])
        assert seen[at(1)] == 0
        assert seen[at(2)] is Flaw.REFUSED


async def test_a_hundred_variables_are_as_many_requests_as_frames_hold_them() -> None:
    async with agent(table(numbers(100))) as (snmp, wire):
        seen = await looked(snmp, [at(i) for i in range(100)])
        assert [seen[at(i)] for i in range(100)] == list(range(100))
        assert len(wire.asked) == snmp.requests == 2


async def test_a_silent_agent_is_asked_twice_and_then_left_alone() -> None:
    async with agent(lambda _request: None) as (snmp, wire):
        assert same((await looked(snmp, [at(1)])).values(), [Flaw.TIMEOUT])
        assert same((await looked(snmp, [at(1)])).values(), [Flaw.TIMEOUT])
        assert len(wire.asked) == 2


async def test_one_lost_datagram_loses_no_look() -> None:
    answer = table(ROWS)
    lost: list[int] = []

    def first_is_lost(request: ber.Request) -> bytes | None:
        lost.append(request.id)
        return None if len(lost) == 1 else answer(request)

    async with agent(first_is_lost) as (snmp, _):
        assert (await looked(snmp, [at(2)]))[at(2)] == 20


async def test_an_agent_that_fails_a_whole_request_for_one_variable_is_asked_without_it() -> None:
    answer = table(ROWS)

    def strict(request: ber.Request) -> bytes:
        for index, (name, _, _) in enumerate(request.variables, start=1):
            if name not in ROWS:
                echo = [(n, ber.Value(t, b)) for n, t, b in request.variables]
                return ber.response(request, echo, status=2, index=index)
        return answer(request)

    async with agent(strict) as (snmp, _):
        seen = await looked(snmp, [at(1), at(9), at(3)])
        assert same((seen[at(1)], seen[at(9)], seen[at(3)]), (10, Flaw.REFUSED, 30))


async def test_too_big_is_asked_in_halves() -> None:
    answer = table({(*COLUMN, i): integer(i) for i in range(16)})

    def small(request: ber.Request) -> bytes:
        if len(request.variables) > 4:
            return ber.response(request, [], status=1)
        return answer(request)

    async with agent(small) as (snmp, _):
        seen = await looked(snmp, [at(i) for i in range(16)])
        assert [seen[at(i)] for i in range(16)] == list(range(16))


async def test_answers_to_other_variables_are_not_taken() -> None:
    def another(request: ber.Request) -> bytes:
        return ber.response(request, [((*COLUMN, 77), integer(5))])

    async with agent(another) as (snmp, _):
        assert (await looked(snmp, [at(1)]))[at(1)] is Flaw.UNDECODABLE


@pytest.mark.parametrize(
    "value",
    [
        ber.Value(ber.NULL),
        ber.Value(ber.NO_SUCH_INSTANCE),
        ber.Value(ber.END_OF_MIB_VIEW),
    ],
)
async def test_what_says_that_there_is_nothing_is_no_number(value: ber.Value) -> None:
    async with agent(lambda r: ber.response(r, [((*COLUMN, 1), value)])) as (snmp, _):
        assert isinstance((await looked(snmp, [at(1)]))[at(1)], Flaw)


@pytest.mark.parametrize("tag", [0x02, 0x41, 0x42, 0x43, 0x46])
async def test_a_number_without_a_single_octet_is_no_zero(tag: int) -> None:
    empty = ber.Value(tag, b"")
    async with agent(lambda r: ber.response(r, [((*COLUMN, 1), empty)])) as (snmp, _):
        assert (await looked(snmp, [at(1)]))[at(1)] is Flaw.UNDECODABLE


@pytest.mark.parametrize("per_bulk", [1, 2, 40])
async def test_a_walk_finds_every_row_however_few_come_at_once(per_bulk: int) -> None:
    values = ROWS | {(1, 3, 6, 1, 4, 1, 9, 2, 1): integer(0)}
    async with agent(table(values, per_bulk=per_bulk)) as (snmp, _):
        assert await rows_of(snmp) == (1, 2, 3)


async def test_a_walk_without_getbulk_goes_on_with_getnext() -> None:
    answer = table(ROWS)
    deaf = lambda r: None if r.kind == ber.GET_BULK else answer(r)  # noqa: E731
    async with agent(deaf, timeout_s=0.25) as (snmp, wire):
        assert await rows_of(snmp) == (1, 2, 3)
        await rows_of(snmp)
        assert [r.second for r in wire.asked if r.kind == ber.GET_BULK] == [24, 1]  # remembered


async def test_a_walk_ends_when_names_stop_rising() -> None:
    loop = lambda r: ber.response(r, [((*COLUMN, 1), integer(1)), ((*COLUMN, 1), integer(1))])  # noqa: E731
    async with agent(loop) as (snmp, wire):
        assert await rows_of(snmp) == (1,)
        assert len(wire.asked) == 1


async def test_a_walk_ends_when_the_agent_dies_in_the_middle() -> None:
    answer = table({(*COLUMN, i): integer(i) for i in range(1, 100)}, per_bulk=2)
    asked: list[int] = []

    def dies(request: ber.Request) -> bytes | None:
        asked.append(request.id)
        return answer(request) if len(asked) <= 2 else None

    async with agent(dies, timeout_s=0.1) as (snmp, _):
        assert await rows_of(snmp) == (1, 2, 3, 4)


async def test_an_agent_that_never_answers_has_no_rows_to_tell() -> None:
    async with agent(lambda _r: None, timeout_s=0.1) as (snmp, _):
        assert (await snmp.walk(COLUMN)).silent


async def test_a_refused_set_says_why() -> None:
    def refuse(request: ber.Request) -> bytes:
        echo = [(n, ber.Value(t, b)) for n, t, b in request.variables]
        return ber.response(request, echo, status=17, index=1)

    async with agent(refuse) as (snmp, _):
        reply = await snmp.put(at(1), 5)
        assert (reply.outcome, reply.detail) == ("rejected", "notWritable")


async def test_a_set_is_sent_once() -> None:
    async with agent(lambda _r: None) as (snmp, wire):
        assert (await snmp.put(at(1), 5)).outcome == "unanswered"
        assert [r.kind for r in wire.asked] == [ber.SET]


async def test_garbage_on_the_wire_is_silence() -> None:
    async with agent(lambda r: bytes(o ^ 0x5A for o in table(ROWS)(r))) as (snmp, _):
        assert (await looked(snmp, [at(1)]))[at(1)] is Flaw.TIMEOUT


async def test_mangled_answers_neither_raise_nor_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rng, answer = random.Random(4), table(ROWS)

    def mangled(request: ber.Request) -> bytes:
        octets = bytearray(answer(request) or b"")
        for _ in range(rng.randint(1, 4)):
            octets[rng.randrange(len(octets))] = rng.randrange(256)
        return bytes(octets[: rng.randint(1, len(octets))] if rng.random() < 0.3 else octets)

    async with agent(mangled, timeout_s=0.02) as (snmp, wire):
        for _ in range(40):
            snmp._patience.answered()
            seen = await looked(snmp, [at(1), at(2)])
            assert all(isinstance(raw, int | bytes | str) for raw in seen.values())
        assert len(wire.asked) > 40
    assert not [record for record in caplog.records if record.name == "asyncio"]
