"""A device that is another than its profile is for: told, marked, and not written to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from drivers.address import parse_address
from drivers.catalog import build_device, profiles
from drivers.credentials import Credentials
from drivers.finding import Claim, claim_of
from drivers.finding.identity import ASK_DEADLINE_S, DOUBT_S, IdentifiedDevice, judged
from drivers.profile.binding import Places, bind
from drivers.profile.codec import Answer
from drivers.sim.serve_snmp import serve_snmp
from drivers.sim.source import Instruments
from drivers.snmp import SnmpTransport
from facility.clock import LoopClock, SystemClock
from facility.commands import Command, Outcome
from facility.config import DeviceConfig
from facility.points import Flaw, Grade, PointId, flaw_of, grade_of
from tests.drivers.wires import in_virtual_time, links

KNOWN = [p for p in profiles().values() if p.protocol == "snmp"]
RPDU2 = profiles()["pdu/apc-rpdu2"]
ENLOGIC = (1, 3, 6, 1, 4, 1, 38446, 1)


def test_a_device_that_fits_has_nothing_said_of_it() -> None:
    assert judged(RPDU2, Claim((1, 3, 6, 1, 4, 1, 318, 1, 3, 4, 6), "APC"), KNOWN).strange == ""


def test_another_profiles_device_is_named() -> None:
    verdict = judged(RPDU2, Claim((1, 3, 6, 1, 4, 1, 1718, 4), "Sentry"), KNOWN)
    assert verdict.wrong
    assert "pdu/sentry4" in verdict.strange


def test_a_device_that_nobody_knows_is_only_told_of() -> None:
    verdict = judged(RPDU2, Claim((1, 3, 6, 1, 4, 1, 99999), "Something"), KNOWN)
    assert verdict.strange
    assert not verdict.wrong


@pytest.mark.parametrize(("firmware", "wrong"), [("2.0.4.3", False), ("1.9", True), ("", True)])
def test_firmware_outside_the_range_of_the_scales_is_wrong(firmware: str, wrong: bool) -> None:
    """Case 30: the divisor of an Enlogic PDU depends on its firmware (librenms PR 18162)."""
    claim = Claim(ENLOGIC, "Enlogic PDU", firmware={"pdu/enlogic": firmware})
    assert judged(profiles()["pdu/enlogic"], claim, KNOWN).wrong is wrong


@pytest.mark.parametrize(
    ("served", "read_as", "flaw"),
    [
        ("pdu/apc-rpdu2", "pdu/apc-rpdu2", Flaw.NONE),
        ("pdu/enlogic", "pdu/enlogic", Flaw.NONE),
        ("pdu/rittal-cmc3", "pdu/rittal-cmc3", Flaw.NONE),
        ("ats/apc-ats-6.5", "ats/apc-ats", Flaw.NONE),
        ("ats/apc-ats", "ats/apc-ats-6.5", Flaw.SUBSTITUTED),
    ],
)
async def test_readings_of_the_wrong_device_are_suspect(
    served: str, read_as: str, flaw: Flaw
) -> None:
    plant = Instruments.of("d", {"total:active_power": 900.0, "phase.1:current": 4.0})
    config = DeviceConfig(profile=served, address="snmp://127.0.0.1")
    agents = await serve_snmp(plant, {"d": config})
    device = build_device(
        DeviceConfig(profile=read_as, address=agents["d"]), "d", agents["d"], {}, SystemClock()
    )
    try:
        assert isinstance(device, IdentifiedDevice)
        scan = await device.read(device.layouts[0])
        kept = [q for q in scan.quality.tolist() if grade_of(q) is not Grade.BAD]
        assert kept
        assert {flaw_of(q) for q in kept} == {flaw}
        assert bool(device.strange) is (flaw is not Flaw.NONE)
        command = Command(PointId("d", "x", "state"), 1.0, 1, 1, 0, 5.0, "t")
        if flaw is Flaw.SUBSTITUTED:
            ack = await device.write(command)
            assert ack.outcome is Outcome.REJECTED
            assert read_as in ack.detail
    finally:
        await device.close()
        agents.close()


async def test_every_simulated_agent_is_what_its_profile_is_for() -> None:
    named = {p.profile.replace("/", "-"): p for p in KNOWN}
    configs = {
        name: DeviceConfig(profile=p.profile, address="snmp://127.0.0.1")
        for name, p in named.items()
        if p.match.sys_object_ids or p.match.describes
    }
    agents = await serve_snmp(Instruments(), configs)
    shared = links()
    strange = {}
    try:
        for name in configs:
            agent = SnmpTransport(parse_address(agents[name]), shared, Credentials())
            claim = await claim_of(agent, KNOWN)
            assert claim is not None
            strange[name] = judged(named[name], claim, KNOWN).strange
            await agent.close()
    finally:
        agents.close()
    assert not {name: text for name, text in strange.items() if text}


class Mute:
    """Answers its points, and nothing about itself."""

    endpoint, host, requests = "mute", "127.0.0.1", 0

    def __init__(self) -> None:
        self.asked = 0

    async def fetch(self, places: Places) -> Sequence[Answer]:
        return (1,) * len(places.at)

    async def get(self, oid: tuple[int, ...]) -> Answer:
        self.asked += 1
        return Flaw.TIMEOUT


async def test_a_device_that_does_not_say_who_it_is_is_not_asked_at_each_look() -> None:
    wire = Mute()
    device = IdentifiedDevice(bind(RPDU2, "d"), wire, SystemClock(), KNOWN)  # type: ignore[arg-type]
    for _ in range(3):
        scan = await device.read(device.layouts[0])
    assert wire.asked == 2
    assert not device.strange
    assert (scan.quality == 0).any()


class Card:
    """An agent whose words about itself may get lost, or come up after its points."""

    endpoint, host, requests = "card", "127.0.0.1", 0

    def __init__(self) -> None:
        self.told: dict[tuple[int, ...], Answer] = {
            (1, 3, 6, 1, 2, 1, 1, 2, 0): ".".join(map(str, ENLOGIC)),
            (1, 3, 6, 1, 2, 1, 1, 1, 0): b"Enlogic PDU",
        }
        self.firmware: Answer = b"2.0.4.3"
        self.asked = 0

    async def fetch(self, places: Places) -> Sequence[Answer]:
        return (1,) * len(places.at)

    async def get(self, oid: tuple[int, ...]) -> Answer:
        self.asked += 1
        return self.told.get(oid, self.firmware)


class HandClock(SystemClock):
    """Stands still until it is moved."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


async def _flaws(device: IdentifiedDevice) -> set[Flaw]:
    scan = await device.read(device.layouts[0])
    kept = [q for q in scan.quality.tolist() if grade_of(q) is not Grade.BAD]
    assert kept
    return {flaw_of(q) for q in kept}


@pytest.mark.parametrize("flaw", [Flaw.TIMEOUT, Flaw.DEVICE_FAULT])
async def test_a_lost_datagram_makes_no_other_device_of_one(flaw: Flaw) -> None:
    """Its readings were SUSPECT and its writes refused for an hour."""
    card, clock = Card(), HandClock()
    card.firmware = flaw
    bound = bind(profiles()["pdu/enlogic"], "d")
    device = IdentifiedDevice(bound, card, clock, KNOWN)  # type: ignore[arg-type]
    assert await _flaws(device) == {Flaw.NONE}
    card.firmware = b"1.9"
    clock.now_s += DOUBT_S
    assert await _flaws(device) == {Flaw.SUBSTITUTED}
    card.firmware = flaw
    clock.now_s += 2.0 * DOUBT_S
    assert await _flaws(device) == {Flaw.SUBSTITUTED}, "nor does it make a right one of a wrong one"


async def test_a_card_that_told_less_while_it_started_is_believed_soon_after() -> None:
    card, clock = Card(), HandClock()
    card.firmware = Flaw.REFUSED
    bound = bind(profiles()["pdu/enlogic"], "d")
    device = IdentifiedDevice(bound, card, clock, KNOWN)  # type: ignore[arg-type]
    assert await _flaws(device) == {Flaw.SUBSTITUTED}
    card.firmware = b"2.0.4.3"
    clock.now_s += DOUBT_S
    assert await _flaws(device) == {Flaw.NONE}
    asked = card.asked
    for _ in range(10):
        clock.now_s += DOUBT_S
        await device.read(device.layouts[0])
    assert card.asked == asked, "one that fits is asked once an hour"


async def test_a_device_that_stays_strange_is_asked_ever_less_often() -> None:
    card, clock = Card(), HandClock()
    card.firmware = b"1.9"
    bound = bind(profiles()["pdu/enlogic"], "d")
    device = IdentifiedDevice(bound, card, clock, KNOWN)  # type: ignore[arg-type]
    for _ in range(3600):
        clock.now_s += 1.0
        await device.read(device.layouts[0])
    assert card.asked <= 8 * 3


class Dawdler(Card):
    """Takes its time over each word about itself."""

    async def get(self, oid: tuple[int, ...]) -> Answer:
        await asyncio.sleep(1.9)
        return await super().get(oid)


def test_a_device_slow_to_say_who_it_is_holds_up_no_reading_for_long() -> None:
    async def looks(clock: LoopClock) -> float:
        bound = bind(profiles()["pdu/enlogic"], "d")
        device = IdentifiedDevice(bound, Dawdler(), clock, KNOWN)  # type: ignore[arg-type]
        began_s = clock.monotonic_s()
        assert await _flaws(device) == {Flaw.NONE}
        return clock.monotonic_s() - began_s

    assert in_virtual_time(looks) <= ASK_DEADLINE_S


async def test_a_device_that_refused_all_was_never_asked_who_it_is() -> None:
    """A wrong profile of which the agent has not one value: its health said no more than that."""
    served = {"d": DeviceConfig(profile="pdu/raritan-px", address="snmp://127.0.0.1")}
    agents = await serve_snmp(Instruments(), served)
    device = build_device(
        DeviceConfig(profile="pdu/sentry4", address=agents["d"]),
        "d",
        agents["d"],
        {},
        SystemClock(),
    )
    try:
        assert isinstance(device, IdentifiedDevice)
        scan = await device.read(device.layouts[0])
        assert {grade_of(q) for q in scan.quality.tolist()} == {Grade.BAD}
        assert "pdu/raritan-px" in device.strange
        before = device.transport.requests
        await device.read(device.layouts[0])
        assert device.transport.requests - before <= 2  # and is not asked at each look
    finally:
        await device.close()
        agents.close()
