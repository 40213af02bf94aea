"""The impersonating servers answer as the standards say, well or badly asked."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.catalog import profiles
from drivers.sim import ber
from drivers.sim.impersonation import Impersonation
from drivers.sim.serve_modbus import Unit
from drivers.sim.serve_snmp import SYS_DESCR, SYS_OBJECT_ID, Agent
from drivers.sim.source import Instruments

CDU = Instruments.of(
    "d",
    {"loop.secondary:flow": 150.0, "loop.secondary:supply_setpoint": 30.0, "pump.1:state": 1.0},
)


@pytest.fixture
def unit() -> Unit:
    return Unit(Impersonation(profiles()["cdu/wattkeeper-sim"], "d", CDU))


def ask(function: int, *words: int) -> bytes:
    return bytes((function,)) + struct.pack(f">{len(words)}H", *words)


def test_registers_are_answered_and_a_hole_between_them_reads_as_0(unit: Unit) -> None:
    assert unit.answer(ask(4, 2, 1)) == bytes((4, 2)) + (1500).to_bytes(2, "big")
    assert unit.answer(ask(4, 17, 3)) == bytes((4, 6)) + bytes(6)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ask(4, 1000, 1), 2),  # past the map
        (ask(4, 0, 0), 3),
        (ask(4, 0, 126), 3),
        (ask(1, 0, 1), 2),  # it has no coils
        (ask(6, 77, 1), 2),
        (ask(6, 0, 9000), 3),  # 90 degC
        (bytes((4, 0)), 3),  # cut off
        (bytes((22, 0, 0)), 1),
    ],
)
def test_what_cannot_be_done_is_an_exception(unit: Unit, request_: bytes, code: int) -> None:
    assert unit.answer(request_) == bytes((request_[0] | 0x80, code))


def test_a_set_point_can_be_written_by_either_function(unit: Unit) -> None:
    assert unit.answer(ask(6, 0, 3100)) == ask(6, 0, 3100)
    many = ask(16, 0, 1) + bytes((2,)) + (3200).to_bytes(2, "big")
    assert unit.answer(many) == ask(16, 0, 1)
    assert unit.answer(ask(3, 0, 1))[2:] == (3200).to_bytes(2, "big")


@settings(max_examples=150)
@given(st.binary(min_size=1, max_size=260))
def test_no_bytes_break_the_modbus_server(pdu: bytes) -> None:
    answer = Unit(Impersonation(profiles()["cdu/orv3-rpu"], "d", Instruments())).answer(pdu)
    assert answer[0] & 0x7F == pdu[0] & 0x7F


@pytest.fixture
def agent() -> Agent:
    plant = Instruments.of("d", {"total:active_power": 4120.0})
    return Agent(Impersonation(profiles()["pdu/apc-rpdu2"], "d", plant))


def request(kind: int, *names: ber.Oid, first: int = 0, second: int = 0) -> ber.Request:
    return ber.Request(b"public", kind, 7, first, second, tuple((n, ber.NULL, b"") for n in names))


def told(answer: bytes) -> tuple[int, list[tuple[ber.Oid, int, bytes]]]:
    ((_, message),) = ber.items(answer)
    *_, (_, pdu) = ber.items(message)
    (_, _), (_, status), (_, _), (_, listed) = ber.items(pdu)
    found = []
    for _, pair in ber.items(listed):
        (_, name), (tag, body) = ber.items(pair)
        found.append((ber.oid(name), tag, body))
    return ber.integer(status), found


def test_an_agent_says_who_it_is(agent: Agent) -> None:
    status, found = told(agent.respond(request(ber.GET, SYS_DESCR, SYS_OBJECT_ID, (1, 3, 9))))
    assert status == 0
    assert b"MN:Simulated " in found[0][2]
    assert ber.oid(found[1][2]) == (1, 3, 6, 1, 4, 1, 318, 1, 3, 4, 6)
    assert found[2][1] == ber.NO_SUCH_INSTANCE


def test_a_whole_walk_rises_and_ends(agent: Agent) -> None:
    seen: list[ber.Oid] = []
    here: ber.Oid = (1, 3)
    for _ in range(500):
        _, found = told(agent.respond(request(ber.GET_NEXT, here)))
        if found[0][1] == ber.END_OF_MIB_VIEW:
            break
        seen.append(found[0][0])
        here = found[0][0]
    assert seen == sorted(set(seen))
    assert (1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 4, 3, 1, 5, 1) in seen
    _, bulk = told(agent.respond(request(ber.GET_BULK, (1, 3), second=len(seen) + 5)))
    assert [name for name, tag, _ in bulk if tag != ber.END_OF_MIB_VIEW] == seen[:40]


def test_nothing_of_a_read_only_profile_can_be_set(agent: Agent) -> None:
    name = (1, 3, 6, 1, 4, 1, 318, 1, 1, 26, 4, 3, 1, 5, 1)
    one = ber.Request(b"private", ber.SET, 7, 0, 0, ((name, ber.INTEGER, b"\x05"),))
    assert told(agent.respond(one))[0] == 17
