"""Objects of a BMS on the DSX Exchange: metadata first, only quality 1, heartbeats, nonsense."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.dsx.exchange import MOST_PULSES, Exchange, read_value
from drivers.dsx.metadata import METADATA, factors, read_metadata
from drivers.mqtt.latest import Latest, Message
from facility.kinds import KINDS
from facility.points import Flaw, Grade
from tests.drivers.agent.rig import in_virtual_time
from tests.drivers.dsx.bms import NO_LEAK, Bms, look

SUPPLY = "CDU/LiquidTemperature/site1/row3/cdu5/tsup"
RETURN = "CDU/LiquidTemperature/site1/row3/cdu5/tret"
CDU = {"objectName": "CDU 5", "objectId": "CDU-5"}


async def describe_cdu(bms: Bms) -> None:
    await bms.describe(SUPPLY, **CDU, engUnit="C", processArea=["Secondary", "Supply"])
    await bms.describe(RETURN, **CDU, engUnit="C", processArea=["Secondary", "Return"])
    await bms.describe(
        "CDU/LiquidFlow/f", **CDU, engUnit="LPM", processArea=["Secondary"], servesId=["R07", "R08"]
    )
    await bms.describe("CDU/PumpSpeed/p", **CDU, engUnit="RPM")
    await bms.describe("CDU/LeakDetect/l", **CDU, stateText=NO_LEAK)


def test_values_are_read_by_what_their_metadata_says() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        for path, value in (
            (SUPPLY, 30.5),
            (RETURN, 40.25),
            ("CDU/LiquidFlow/f", 1200),
            ("CDU/PumpSpeed/p", 2900.0),
            ("CDU/LeakDetect/l", 0),
        ):
            await bms.say(path, value)
        seen = await look(device)
        good = (Grade.GOOD, Flaw.NONE)
        assert seen["loop.secondary:supply_temperature"] == (30.5, *good)
        assert seen["loop.secondary:return_temperature"] == (40.25, *good)
        assert seen["loop.secondary:flow"] == (1200.0, *good)
        assert seen["pump.1:rotation"] == (2900.0, *good)
        assert seen["pump.1:speed"][1:] == (Grade.BAD, Flaw.REFUSED)  # revolutions are no share
        assert seen["total:leak"] == (0.0, *good)
        assert seen["loop.primary:flow"][1:] == (Grade.BAD, Flaw.REFUSED)

    in_virtual_time(work)


def test_a_value_whose_metadata_is_unknown_is_no_value() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await bms.say(SUPPLY, 30.5)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.TIMEOUT
        await describe_cdu(bms)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.TIMEOUT
        await bms.say(SUPPLY, 30.5)
        assert (await look(device))["loop.secondary:supply_temperature"][0] == 30.5

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("value", "quality", "flaw"),
    [
        (30.5, 0, Flaw.DEVICE_FAULT),
        (30.5, 2, Flaw.DEVICE_FAULT),
        (30.5, 192, Flaw.DEVICE_FAULT),
        (None, 1, Flaw.SENTINEL),
        (None, 0, Flaw.DEVICE_FAULT),
        (30.5, True, Flaw.UNDECODABLE),
        (30.5, "1", Flaw.UNDECODABLE),
        (30.5, None, Flaw.UNDECODABLE),
        ("30.5", 1, Flaw.UNDECODABLE),
        (True, 1, Flaw.UNDECODABLE),
        ([30.5], 1, Flaw.UNDECODABLE),
        (1e300, 1, Flaw.UNDECODABLE),
    ],
)
def test_only_a_number_of_quality_1_is_good(value: Any, quality: Any, flaw: Flaw) -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        await bms.say(SUPPLY, value, quality)
        seen = (await look(device))["loop.secondary:supply_temperature"]
        assert seen[0] != seen[0]
        assert seen[1:] == (Grade.BAD, flaw)

    in_virtual_time(work)


def test_a_value_that_does_not_change_is_good_until_it_is_not_repeated() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        for _ in range(5):
            await bms.say(SUPPLY, 30.5)
            await describe_cdu(bms)  # repeated as often
            await asyncio.sleep(100.0)
            assert (await look(device))["loop.secondary:supply_temperature"][1] is Grade.GOOD
        await asyncio.sleep(151.0)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.STALE

    in_virtual_time(work)


def test_a_bms_without_a_pulse_is_believed_nothing() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        pulse = "System/HeartbeatTimestampBms/hb"
        await bms.describe(pulse, objectName="BMS", objectId="BMS")
        await bms.say(SUPPLY, 30.5)
        for _ in range(6):
            await bms.say(pulse, bms.clock.utc_ms())
            await asyncio.sleep(10.0)
            assert (await look(device))["loop.secondary:supply_temperature"][1] is Grade.GOOD
        stuck = bms.clock.utc_ms()
        for _ in range(4):
            await bms.say(pulse, stuck)  # the same time again is no beat
            await asyncio.sleep(10.0)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.STALE
        await bms.say(pulse, bms.clock.utc_ms())
        assert (await look(device))["loop.secondary:supply_temperature"][1] is Grade.GOOD

    in_virtual_time(work)


def test_a_pulse_stands_for_the_topics_of_its_scope_only() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        await bms.describe(
            "System/HeartbeatTimestampBms/power",
            objectName="BMS",
            objectId="BMS",
            scope="BMS/v1/PUB/Value/PowerMeter/#",
        )
        await asyncio.sleep(60.0)
        await bms.say(SUPPLY, 30.5)
        assert (await look(device))["loop.secondary:supply_temperature"][1] is Grade.GOOD

    in_virtual_time(work)


def test_we_answer_the_pulse_and_send_ours_where_the_bms_asks_us_to_and_nowhere_else() -> None:
    async def work() -> None:
        bms = Bms("WATTKEEPER")
        device = bms.device("dsx/cdu", "CDU-5")
        heard: list[tuple[str, Any]] = []
        bms.bus.subscribe("BMS/v1/+/Value/System/#", lambda t, p, _: heard.append((t, p)))
        await bms.start()
        await bms.describe("System/HeartbeatTimestampBms/hb", objectName="BMS", objectId="BMS")
        for name in ("WATTKEEPER", "OTHER"):
            own = {"objectName": name, "objectId": name, "integration": name}
            await bms.describe(f"System/HeartbeatTimestampIntegration/{name}", **own)
            await bms.describe(
                f"System/HeartbeatEchoIntegration/{name}", **{**own, "objectId": "BMS"}
            )
        await bms.describe(
            "System/HeartbeatEchoBms/w", objectName="WATTKEEPER", objectId="WATTKEEPER"
        )
        await look(device)
        await asyncio.sleep(25.0)
        await bms.say("System/HeartbeatTimestampBms/hb", 1_780_000_123_000)
        await bms.say("System/HeartbeatEchoBms/w", 1_780_000_100_000)
        await asyncio.sleep(0.1)
        ours = [(t, json.loads(p)) for t, p in heard if t.startswith("BMS/v1/WATTKEEPER/")]
        assert not [t for t, _ in heard if t.startswith("BMS/v1/OTHER/")]
        stamps = [b for t, b in ours if "HeartbeatTimestampIntegration/WATTKEEPER" in t]
        assert len(stamps) == 3
        assert all(set(b) == {"value", "timestamp", "quality"} for b in stamps)
        echoes = [b for t, b in ours if "HeartbeatEchoIntegration/WATTKEEPER" in t]
        assert [b["value"] for b in echoes] == [1_780_000_123_000]
        heard_there = bms.broker.exchange.heard_there
        assert heard_there
        await asyncio.sleep(60.0)
        await look(device)
        heard_there = bms.broker.exchange.heard_there
        assert not heard_there
        await device.close()

    in_virtual_time(work)


def test_the_value_of_a_point_of_an_integration_is_read_where_that_publishes() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/rack", "R07")
        await bms.start()
        rack = {"rackLocationName": "R07", "rackLocationId": "R07"}
        await bms.describe("Rack/RackPower/r07", **rack, engUnit="kW", integration="DCIM")
        await bms.say("Rack/RackPower/r07", 131.5)
        assert (await look(device))["total:active_power"][2] is Flaw.TIMEOUT
        await bms.say("Rack/RackPower/r07", 131.5, publisher="DCIM")
        assert (await look(device))["total:active_power"][0] == 131_500.0

    in_virtual_time(work)


def test_two_points_that_fit_as_well_are_suspect_and_a_more_special_one_is_not_taken() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        extra = {**CDU, "engUnit": "C"}
        await bms.describe(
            "CDU/LiquidTemperature/a", **extra, processArea=["Secondary", "Supply", "Spare"]
        )
        await bms.say(SUPPLY, 30.0)
        await bms.say("CDU/LiquidTemperature/a", 99.0)
        assert (await look(device))["loop.secondary:supply_temperature"][:2] == (30.0, Grade.GOOD)
        await bms.describe("CDU/LiquidTemperature/b", **extra, processArea=["supply", "SECONDARY"])
        seen = (await look(device))["loop.secondary:supply_temperature"]
        assert seen[1:] in {(Grade.SUSPECT, Flaw.SUBSTITUTED), (Grade.BAD, Flaw.TIMEOUT)}

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("states", "raw", "wanted"),
    [
        (NO_LEAK, 1, 1.0),
        ([{"value": 0, "text": "Leak"}, {"value": 1, "text": "No Leak"}], 1, 0.0),
        (NO_LEAK, 7, None),
        (NO_LEAK, 0.5, None),
        ([{"value": 0, "text": "NoLeak"}, {"value": 1, "text": "Perhaps"}], 1, None),
        ([{"value": 0, "text": "trocken"}, {"value": 1, "text": "nass"}], 1, 1.0),
    ],
)
def test_a_state_is_what_the_bms_calls_it(states: Any, raw: Any, wanted: float | None) -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await bms.describe("CDU/LeakDetect/l", **CDU, stateText=states)
        await bms.say("CDU/LeakDetect/l", raw)
        value, grade, _ = (await look(device))["total:leak"]
        assert (value == wanted) if wanted is not None else grade is Grade.BAD

    in_virtual_time(work)


def test_a_unit_that_nobody_knows_makes_no_number() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await bms.describe(SUPPLY, **CDU, engUnit="Réaumur", processArea=["Secondary", "Supply"])
        await bms.say(SUPPLY, 24.0)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.UNDECODABLE
        await bms.describe(SUPPLY, **CDU, engUnit="degF", processArea=["Secondary", "Supply"])
        await bms.say(SUPPLY, 24.0)
        assert (await look(device))["loop.secondary:supply_temperature"][0] == pytest.approx(
            -4.444, abs=1e-3
        )

    in_virtual_time(work)


def test_a_value_is_not_read_in_a_unit_that_it_was_not_said_in() -> None:
    """The BMS goes over to Fahrenheit: until the next value 30.5 would be -0.8 degC, and good."""

    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        await bms.say(SUPPLY, 30.5)
        about = {**CDU, "processArea": ["Secondary", "Supply"]}
        await bms.describe(SUPPLY, **about, engUnit="C", rev=2)  # says the same in other bytes
        supply = "loop.secondary:supply_temperature"
        assert (await look(device))[supply] == (30.5, Grade.GOOD, Flaw.NONE)
        await bms.describe(SUPPLY, **about, engUnit="F")
        assert (await look(device))[supply][1:] == (Grade.BAD, Flaw.TIMEOUT)
        await bms.say(SUPPLY, 86.9)
        assert (await look(device))[supply][0] == pytest.approx(30.5)

    in_virtual_time(work)


def test_a_heartbeat_described_in_ever_new_words_is_answered_once_and_lives_no_longer() -> None:
    """Metadata that holds a time differs each 100 s: after a day each beat had 864 echoes."""

    async def work() -> None:
        bms = Bms("WATTKEEPER")
        device = bms.device("dsx/cdu", "CDU-5")
        echoes: list[str] = []
        bms.bus.subscribe("BMS/v1/WATTKEEPER/Value/#", lambda t, p, _: echoes.append(t))
        await bms.start()
        await describe_cdu(bms)
        own = {"objectName": "W", "objectId": "BMS", "integration": "WATTKEEPER"}
        await bms.describe("System/HeartbeatEchoIntegration/w", **own)
        pulse = "System/HeartbeatTimestampBms/hb"
        await bms.say(SUPPLY, 30.5)
        for i in range(6):
            await bms.describe(pulse, objectName="BMS", objectId="BMS", said=i)
            await asyncio.sleep(10.0)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.STALE
        await bms.say(pulse, bms.clock.utc_ms())
        await asyncio.sleep(0.1)
        assert len([t for t in echoes if "HeartbeatEcho" in t]) == 1
        await device.close()

    in_virtual_time(work)


def test_ever_new_heartbeats_and_topics_of_60_kilobytes_are_bounded() -> None:
    async def work() -> None:
        bms = Bms()
        exchange = Exchange(bms.far, bms.clock, Latest(bms.far, bms.clock), None)
        about = json.dumps({"objectId": "BMS"}).encode()
        for i in range(MOST_PULSES + 9):
            exchange._on_metadata(f"{METADATA}/System/HeartbeatTimestampBms/{i}", about, True)
        assert len(exchange._pulses) == MOST_PULSES
        exchange._on_metadata(f"{METADATA}/CDU/LiquidFlow/{'x' * 60_000}", about, True)
        assert exchange.refused == 1

    in_virtual_time(work)


def test_a_point_that_is_taken_away_is_gone() -> None:
    async def work() -> None:
        bms = Bms()
        device = bms.device("dsx/cdu", "CDU-5")
        await bms.start()
        await describe_cdu(bms)
        await bms.say(SUPPLY, 30.0)
        await bms.bus.publish(f"{METADATA}/{SUPPLY}", b"", retain=True)
        await asyncio.sleep(0.01)
        assert (await look(device))["loop.secondary:supply_temperature"][2] is Flaw.REFUSED

    in_virtual_time(work)


@pytest.mark.parametrize(
    "body",
    [
        {"objectId": "x", "objectName": "x", "engUnit": "C", "stateText": NO_LEAK},
        {"objectId": "x", "pointType": "PumpSpeed"},
        {"objectId": 5},
        {"objectId": ""},
        {"objectId": "a\nb"},
        {"objectId": "x", "integration": "a/b"},
        {"objectId": "x" * 500},
        {},
        [],
        "CDU",
        None,
    ],
)
def test_metadata_that_contradicts_itself_or_the_standard_describes_nothing(body: Any) -> None:
    payload = json.dumps(body).encode()
    assert read_metadata(f"{METADATA}/CDU/LiquidTemperature/x", payload) is None


def test_a_flood_of_points_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr("drivers.dsx.exchange.MOST_POINTS", 50)
        bms = Bms()
        exchange = Exchange(bms.far, bms.clock, Latest(bms.far, bms.clock), None)
        for i in range(200):
            exchange._on_metadata(
                f"{METADATA}/CDU/LiquidFlow/{i}", json.dumps({"objectId": str(i)}).encode(), True
            )
        assert len(exchange.points) == len(exchange._hashes) == 50

    in_virtual_time(work)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = [
    *("objectType", "pointType", "objectId", "objectName", "associateId", "servesId"),
    *("processArea", "phase", "engUnit", "stateText", "isSetpoint", "integration", "scope"),
    *("rackLocationId", "rackLocationName"),
]


@settings(max_examples=80)
@given(
    body=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=10).map(
        lambda d: json.dumps(d).encode()
    )
    | st.binary(max_size=80),
    topic=st.sampled_from(
        ["CDU/LiquidFlow/a", "Rack/RackPower/a/b", "System/x/y", "CDU", "//", ""]
    ),
)
def test_no_metadata_crashes(body: bytes, topic: str) -> None:
    meta = read_metadata(f"{METADATA}/{topic}", body)
    if meta is not None:
        assert meta.object_id
        assert not set(meta.value_topic) & {"+", "#"} or "+" in topic
        for kind in KINDS.values():
            try:
                scaling = factors(meta.unit, kind)
            except ValueError:
                continue
            assert scaling is None or scaling[0] > 0.0


@settings(max_examples=80)
@given(
    payload=st.binary(max_size=60)
    | st.fixed_dictionaries({"value": JSON, "timestamp": JSON, "quality": JSON}).map(
        lambda d: json.dumps(d).encode()
    )
)
def test_no_value_message_becomes_a_number_by_accident(payload: bytes) -> None:
    value, _ = read_value(Message("t", payload, False, 0, 0.0))
    if not isinstance(value, Flaw):
        body = json.loads(payload)
        assert body["quality"] == 1
        assert body["value"] == value
