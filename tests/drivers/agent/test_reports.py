"""Statuses and acks: both ways over the wire, and whatever else comes on their topics."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.agent.gpu import GpuReading, LimitAnswer, TokenCounts
from drivers.agent.lease import State
from drivers.agent.protocol import Header
from drivers.agent.report import (
    GpuAck,
    GpuReport,
    Status,
    ack_bytes,
    parse_ack,
    parse_status,
    status_bytes,
)
from drivers.agent.state import MemoryState, Saved
from facility.points import Flaw, Grade, flaw_of, grade_of
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time

WATTS = st.none() | st.integers(0, 1000).map(float)
READINGS = st.builds(
    GpuReading,
    limit_w=WATTS,
    enforced_w=WATTS,
    power_w=WATTS,
    energy_wh=WATTS,
    temperature_c=WATTS,
    margin_k=st.none() | st.integers(-50, 100).map(float),
    clock_hz=WATTS,
    events=st.none() | st.integers(0, 2048),
    fault=st.sampled_from([None, "gpu_lost", "timeout"]),
)
GPUS = st.builds(
    GpuReport,
    index=st.integers(0, 15),
    uuid=st.sampled_from(["GPU-a", "GPU-b"]),
    reading=READINGS,
    commanded_w=WATTS,
    min_w=WATTS,
    max_w=WATTS,
    default_w=WATTS,
    prior_w=WATTS,
    prior_from=st.sampled_from([None, "found", "default"]),
)
STATUSES = st.builds(
    Status,
    node=st.just("n01"),
    run=st.just("r1"),
    sequence=st.integers(1, 9),
    nonce=st.just("0123456789abcdef"),
    utc_ms=st.none() | st.integers(0, 2**45),
    monotonic_s=WATTS,
    state=st.sampled_from(State),
    owner=st.just("c1"),
    epoch=st.integers(0, 9),
    lease_left_s=WATTS,
    fallback_w=WATTS,
    applied=st.none() | st.integers(0, 99),
    refused=st.integers(0, 9),
    unsaved=st.booleans(),
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    tokens=st.none() | st.just(TokenCounts(1.0, 2.0, 3.0, 4.0)),
)

ACKED = GpuAck("GPU-a", 500.0, LimitAnswer(500.0, 300.0))
STATUS = Status(
    node="n01",
    run="r1",
    sequence=1,
    nonce="0123456789abcdef",
    utc_ms=1,
    monotonic_s=1.0,
    state=State.LEASED,
    owner="c1",
    epoch=1,
    lease_left_s=1.0,
    fallback_w=300.0,
    applied=1,
    refused=0,
    unsaved=False,
    gpus=(GpuReport(0, "GPU-a", GpuReading(power_w=1.0), 1.0, 1.0, 1.0, 1.0),),
    tokens=TokenCounts(1.0, 2.0, 3.0, 4.0),
)


@given(status=STATUSES)
def test_a_status_survives_the_wire(status: Status) -> None:
    assert parse_status(status_bytes(status), "n01") == status


def test_an_ack_survives_the_wire() -> None:
    gpus = (GpuAck("GPU-a", 500.0, LimitAnswer(500.0, 300.0)),)
    header = Header("c1", 3, 9, "0123456789abcdef")
    ack = parse_ack(ack_bytes("n01", "cap", header, "applied", "read back", gpus), "n01")
    assert (ack.kind, ack.owner, ack.epoch, ack.sequence) == ("cap", "c1", 3, 9)
    assert (ack.code, ack.detail, ack.gpus) == ("applied", "read back", gpus)


@pytest.mark.parametrize("odd", [[], {}, [1], {"a": 1}, True, 1e999, 10**300, "x" * 300])
def test_no_type_in_place_of_another_ends_in_more_than_a_refusal(odd: Any) -> None:
    """A list for a fault was no ValueError: a traceback in the log for each message."""
    told = status_bytes(STATUS)
    acked = ack_bytes("n01", "cap", Header("c", 1, 1, "0123456789abcdef"), "applied", "", [ACKED])
    for payload, parse in ((told, parse_status), (acked, parse_ack)):
        body = json.loads(payload)
        for part in (body, *body["gpus"], body.get("lease"), body.get("tokens")):
            for key in part or ():
                kept, part[key] = part[key], odd
                with suppress(ValueError):
                    parse(json.dumps(body).encode(), "n01")
                part[key] = kept


@pytest.mark.parametrize("parse", [parse_status, parse_ack])
@settings(max_examples=200)
@given(payload=st.binary(max_size=300))
def test_bytes_that_are_no_report_are_a_value_error(parse: Any, payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(payload, "n01")


def body() -> dict[str, Any]:
    reading = GpuReading(limit_w=500.0, enforced_w=500.0, power_w=400.0)
    gpu = GpuReport(0, "GPU-a", reading, None, 200.0, 700.0, 700.0)
    status = Status(
        "n01", "r1", 1, "0123456789abcdef", 0, 0.0, State.LEASED, "c1", 1, 9.0, None, None, 0,
        False, (gpu,), None,
    )  # fmt: skip
    found = json.loads(status_bytes(status))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("value", [True, "400", [400], {"w": 400}, 10**400])
def test_what_is_no_number_is_unknown_never_zero(value: object) -> None:
    found = body()
    found["gpus"][0]["power_w"] = value
    status = parse_status(json.dumps(found).encode(), "n01")
    assert status.gpus[0].reading.power_w is None
    assert status.gpus[0].reading.limit_w == 500.0


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"node": "n02"},
        {"state": "asleep"},
        {"sequence": "1"},
        {"nonce": None},
        {"gpus": None},
        {"gpus": [1]},
        {"gpus": [{}] * 17},
    ],
)
def test_what_is_no_status_of_this_node(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r":|not"):
        parse_status(json.dumps(body() | change).encode(), "n01")


def test_keys_of_a_later_agent_are_ignored() -> None:
    found = body() | {"later": {"x": 1}}
    assert parse_status(json.dumps(found).encode(), "n01").gpus[0].limit_w == 500.0


@settings(max_examples=60)
@given(payload=st.binary(max_size=120), topic=st.sampled_from(["status", "ack", "command"]))
def test_no_bytes_on_any_topic_move_a_limit_or_hide_the_node(payload: bytes, topic: str) -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus)
        await rig.device.renew("c1", 1)
        for retain in (False, True):
            await rig.bus.publish(f"wk/n01/{topic}", payload, retain=retain)
        await asyncio.sleep(1.2)
        assert gpus.limits == [350.0, 350.0]
        assert rig.device.status is not None
        assert rig.device.status.state is State.LEASED

    in_virtual_time(work)


def test_a_clock_that_is_hours_off_is_noted_and_nothing_else() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        rig.clock.epoch_ms += 7_200_000
        scan = await rig.device.read(rig.device.layouts[0])
        assert {grade_of(int(q)) for q in scan.quality[:4]} == {Grade.GOOD}
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        assert (await rig.device.write(rig.command(400.0, 1))).actual == 400.0
        await rig.stop()
        # A node whose clock is behind ours by two hours.
        old = body() | {"run": "r9", "utc_ms": rig.clock.utc_ms() - 7_200_000}
        await rig.bus.publish("wk/n01/status", json.dumps(old).encode())
        await asyncio.sleep(0.01)
        scan = await rig.device.read(rig.device.layouts[0])
        assert flaw_of(int(scan.quality[0])) is Flaw.CLOCK_SKEW
        assert grade_of(int(scan.quality[0])) is Grade.GOOD
        assert scan.source_ms == scan.received_ms

    in_virtual_time(work)


class Diary(MemoryState):
    """Remembers how many limits had been written at each save."""

    def __init__(self, gpus: Gpus) -> None:
        super().__init__()
        self.gpus = gpus
        self.saves: list[tuple[int, dict[str, float]]] = []

    async def save(self, saved: Saved) -> bool:
        self.saves.append((len(self.gpus.writes), dict(saved.prior_w)))
        return await super().save(saved)


def test_the_limits_found_are_saved_before_the_first_write() -> None:
    async def work() -> None:
        gpus = Gpus.of(2, limit_w=480.0)
        diary = Diary(gpus)
        await Rig.start(gpus, state=diary)
        assert gpus.writes
        assert diary.saves[0] == (0, {"GPU-0": 480.0, "GPU-1": 480.0})

    in_virtual_time(work)


def test_an_older_status_and_one_of_a_former_run_are_dropped() -> None:
    async def work() -> None:
        rig = await Rig.start(Gpus.of(2))
        heard: list[bytes] = []
        rig.bus.subscribe("wk/n01/status", lambda _t, payload, _r: heard.append(payload))
        await asyncio.sleep(2.1)
        status = rig.device.status
        assert status is not None
        await rig.bus.publish("wk/n01/status", heard[0])
        await asyncio.sleep(0.01)
        assert rig.device.status is status
        former = heard[-1].replace(b'"sequence":', b'"sequence":9')
        await rig.kill()
        await rig.boot()
        after = rig.device.status
        assert after is not None
        assert after.run != status.run
        await rig.bus.publish("wk/n01/status", former)
        await asyncio.sleep(0.01)
        assert rig.device.status is after

    in_virtual_time(work)
