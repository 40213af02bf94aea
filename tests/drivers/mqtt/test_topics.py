"""One entry of a facility file that reads many rows: names and wildcards in topics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.mqtt.addressing import below
from drivers.mqtt.device import MqttDevice
from drivers.mqtt.freshness import Freshness, SourceClock, source_ms
from drivers.mqtt.latest import MAX_BYTES, Latest, Message
from drivers.mqtt.memory import MemoryBroker, MemoryBus
from drivers.mqtt.paths import Paths, walk
from drivers.profile import Profile
from drivers.profile.binding import Row, bind
from drivers.profile.codec import Answer
from facility.clock import LoopClock
from facility.points import Flaw, Grade
from tests.drivers.agent.rig import START_MS, in_virtual_time
from tests.drivers.mqtt.test_device import look


def shape(topic: str, path: list[Any], **more: Any) -> Profile:
    """A profile of one table of inlets."""
    where = {"topic": topic, "path": path, **more.pop("where", {})}
    return Profile.model_validate(
        {
            "profile": "t",
            "title": "t",
            "source": "t",
            "protocol": "mqtt",
            "verified": "bench",
            "classes": {"fast": {"period": "1 s", "stale_after": "5 s"}},
            "tables": {"inlets": {"rows": 2}},
            "points": [
                {"part": "inlet.*", "kind": "temperature", "table": "inlets", "at": {"mqtt": where}}
            ],
            **more,
        }
    )


class Site:
    """A device on a bus in memory."""

    def __init__(self, profile: Profile, parameters: dict[str, str], base: str = "hall") -> None:
        self.clock = LoopClock(asyncio.get_running_loop(), START_MS)
        self.bus = MemoryBus(MemoryBroker())
        binding = bind(profile, "d", parameters)
        self.device = MqttDevice(binding, self.bus, self.clock, base)

    async def say(self, topic: str, payload: Any, *, retain: bool = False) -> None:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        await self.bus.publish(topic, raw, retain=retain)
        await asyncio.sleep(0.01)


def test_one_entry_reads_the_rows_that_topics_name() -> None:
    async def work() -> None:
        site = Site(
            shape("{room}/{rack}/{row}/temperature", []),
            {"room": "b1", "rack": "r07", "inlets": "top,Middle,bottom"},
        )
        await site.bus.start()
        await site.say("hall/b1/r07/top/temperature", b"24.5")
        await site.say("hall/b1/r07/Middle/temperature", b" 25.5 \n")
        await site.say("hall/b1/r08/bottom/temperature", b"99")
        seen = await look(site.device)
        assert seen["inlet.top:temperature"] == (24.5, Grade.GOOD, Flaw.NONE)
        assert seen["inlet.middle:temperature"] == (25.5, Grade.GOOD, Flaw.NONE)
        assert seen["inlet.bottom:temperature"][2] is Flaw.TIMEOUT

    in_virtual_time(work)


def test_a_level_that_may_be_anything_takes_whoever_speaks_and_two_are_suspect() -> None:
    async def work() -> None:
        site = Site(shape("{row}/+/temperature", []), {"inlets": "1,2"})
        await site.bus.start()
        await site.say("hall/1/sn-1234/temperature", b"24.5")
        assert (await look(site.device))["inlet.1:temperature"] == (24.5, Grade.GOOD, Flaw.NONE)
        await site.say("hall/1/sn-9999/temperature", b"30")
        assert (await look(site.device))["inlet.1:temperature"][1:] == (
            Grade.SUSPECT,
            Flaw.SUBSTITUTED,
        )
        await asyncio.sleep(4.0)
        await site.say("hall/1/sn-9999/temperature", b"30")
        await asyncio.sleep(4.0)  # the replaced sensor is silent
        assert (await look(site.device))["inlet.1:temperature"] == (30.0, Grade.GOOD, Flaw.NONE)

    in_virtual_time(work)


@pytest.mark.parametrize(
    "body", [{"racks": [24.5, 25.5]}, {"racks": {"1": 24.5, "2": 25.5}}], ids=["list", "object"]
)
def test_a_row_is_a_place_in_a_list_or_a_name_in_an_object(body: Any) -> None:
    async def work() -> None:
        site = Site(shape("", ["racks", "row"]), {})
        await site.bus.start()
        await site.say("hall", body)
        seen = await look(site.device)
        assert [seen[f"inlet.{i}:temperature"][0] for i in (1, 2)] == [24.5, 25.5]

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({}, "rack"),
        ({"rack": "a/+"}, "rack"),
        ({"rack": ""}, "rack"),
        ({"rack": "x", "y": "z"}, "y"),
    ],
)
def test_names_that_are_missing_or_no_topic_are_refused(
    parameters: dict[str, str], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        bind(shape("{rack}/{row}", []), "d", parameters)


@pytest.mark.parametrize("topic", ["a/#", "a+/b", "a/../b", "{Row}", "{a", "a}b", "{}"])
def test_topics_that_profiles_may_not_have(topic: str) -> None:
    with pytest.raises(ValueError, match=r"level|braces"):
        shape(topic, [])


def test_availability_is_what_the_profile_says_even_in_json_and_above() -> None:
    async def work() -> None:
        profile = shape(
            "{row}",
            [],
            availability={"topic": "../lwt", "path": ["state"], "online": "Up", "offline": "Down"},
        )
        site = Site(profile, {}, base="gw/hall")
        await site.bus.start()
        await site.say("gw/hall/1", b"24.5")
        await site.say("gw/lwt", {"state": "Up"})
        assert (await look(site.device))["inlet.1:temperature"][1] is Grade.GOOD
        await site.say("gw/lwt", b"offline")
        assert (await look(site.device))["inlet.1:temperature"][1] is Grade.GOOD
        await site.say("gw/lwt", {"state": "Down"})
        assert (await look(site.device))["inlet.1:temperature"][2] is Flaw.STALE
        await site.say("gw/lwt", {"state": "Up"})
        assert (await look(site.device))["inlet.1:temperature"][2] is Flaw.STALE
        await site.say("gw/hall/1", b"24.5")
        assert (await look(site.device))["inlet.1:temperature"][1] is Grade.GOOD

    in_virtual_time(work)


def test_topics_climb() -> None:
    assert below("a/b", "") == "a/b"
    assert below("a/b", "c/d") == "a/b/c/d"
    assert below("a/b", "../c") == "a/c"
    assert below("/a", "b") == "/a/b"


def test_what_is_too_long_or_too_much_is_not_kept() -> None:
    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop(), START_MS)
        bus = MemoryBus(MemoryBroker())
        latest = Latest(bus, clock, most_bytes=1_000)
        slots = [latest.watch(f"t/{i}") for i in range(20)]
        await bus.start()
        for round_ in range(3):
            for i in range(20):
                await bus.publish(f"t/{i}", bytes([48 + round_]) * 100)
                await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert latest.bytes <= 1_000
        assert sum(s.newest is not None and s.newest.payload is not None for s in slots) == 10
        await bus.publish("t/0", b"x" * (MAX_BYTES + 1))
        await asyncio.sleep(0.01)
        assert slots[0].newest is not None
        assert slots[0].newest.body is not None
        assert slots[0].newest.text is None
        assert latest.bytes <= 900

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("raw", "form", "wanted"),
    [
        (1_780_000_000_000, "ms", 1_780_000_000_000),
        (1_780_000_000.5, "s", 1_780_000_000_500),
        ("2026-05-28T20:26:40+00:00", "iso", 1_780_000_000_000),
        ("2026-05-28T22:26:40+02:00", "iso", 1_780_000_000_000),
        ("2026-05-28T20:26:40", "iso", None),  # whose midnight?
        ("yesterday", "iso", None),
        (True, "ms", None),
        (-1, "ms", None),
        (1e300, "s", None),
        (float("nan"), "ms", None),
        (Flaw.REFUSED, "ms", None),
        (None, "s", None),
    ],
)
def test_source_times(raw: Any, form: str, wanted: int | None) -> None:
    assert source_ms(raw, form) == wanted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc1"), inner, max_size=4)
    ),
    max_leaves=10,
)
STEPS = st.sampled_from(["a", "b", 0, 1, Row("1", 0), Row("a", 2)])


@settings(max_examples=150)
@given(
    payload=JSON.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=60),
    paths=st.lists(st.lists(STEPS, max_size=3), min_size=1, max_size=6),
)
def test_paths_find_together_what_each_finds_alone(payload: bytes, paths: list[Any]) -> None:
    message = Message("t", payload, False, 0, 0.0)
    answers: list[Answer] = [Flaw.TIMEOUT] * len(paths)
    Paths([(path, i) for i, path in enumerate(paths)]).fill(message, answers)
    for path, answer in zip(paths, answers, strict=True):
        assert isinstance(answer, int | float | str)
        if path:
            alone = walk(message.body, path)
            if isinstance(alone, int | float | str) and not isinstance(alone, Flaw):
                assert answer is alone
            else:
                assert isinstance(answer, Flaw)


@settings(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(st.floats(0.0, 30.0), st.none() | st.integers(0, 2**41)), min_size=1, max_size=30
    )
)
def test_no_clock_makes_an_old_value_new_by_its_words_alone(steps: list[Any]) -> None:
    clock, now_s = SourceClock(5.0), 0.0
    for wait_s, told in steps:
        now_s += wait_s
        clock.hear(told, START_MS + int(1000 * now_s), now_s)
        found = clock.judge(now_s)
        if told is None:
            assert found is Freshness.FRESH
        elif found is Freshness.FRESH:
            assert abs(START_MS + 1000 * now_s - told) <= 5_001
    if clock.source_ms is not None:
        assert clock.judge(now_s + 5.1) is Freshness.OLD
