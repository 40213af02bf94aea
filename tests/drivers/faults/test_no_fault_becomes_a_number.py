"""Whatever happens on the way, a reading is true or missing, and the wire comes back by itself."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from facility.points import Flaw
from tests.drivers.faults import deeds
from tests.drivers.faults.proxy import Proxy, tcp_proxy, udp_proxy
from tests.drivers.faults.wires import TIMEOUT_S, Wire, server

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pysnmp"),
]

LOOKS = 4
#: looks within which a healed wire must read everything again
COMES_BACK = 3
SCHEMES = ("modbus", "modbus+rtu", "snmp")
FAULTS: dict[str, Callable[[], deeds.Fault]] = {
    "late": lambda: deeds.delayed(1.3 * TIMEOUT_S),
    "late_by_two": lambda: deeds.delayed(2.4 * TIMEOUT_S),
    "dripped": lambda: deeds.dripped(3, 0.002),
    "dripped_too_slowly": lambda: deeds.dripped(2, 0.4 * TIMEOUT_S),
    "reset": lambda: deeds.reset(),
    "reset_in_the_middle": lambda: deeds.reset(after=6),
    "cut_short": lambda: deeds.truncated(8),
    "cut_to_one_byte": lambda: deeds.truncated(1),
    "half_open": lambda: deeds.silent,
    "twice": lambda: deeds.duplicated,
    "in_another_order": lambda: deeds.Reordered(),
    "now_and_then_lost": lambda: deeds.NowAndThen(deeds.silent, 3),
    "now_and_then_late": lambda: deeds.NowAndThen(deeds.delayed(1.3 * TIMEOUT_S), 2),
    "with_a_wrong_id": lambda: deeds.renumbered(*deeds.MBAP_ID),
    "with_a_wrong_id_now_and_then": lambda: deeds.NowAndThen(deeds.renumbered(*deeds.MBAP_ID), 2),
}
#: TCP's and UDP's own checksums catch these; they are here for serial servers, whose CRC must
CHECKED = ("modbus+rtu",)


async def fault_and_heal(scheme: str, fault: deeds.Fault, way: str) -> None:
    """Looks before, under and after a fault; the fault strikes in one direction."""
    async with server(scheme) as port, between(scheme, port) as proxy:
        wire = Wire(scheme, proxy.port)
        try:
            assert await wire.look() == wire.truth
            setattr(proxy, way, fault)
            for _ in range(LOOKS):
                assert not wire.lies(await wire.look())
            proxy.heal()
            seen = []
            for _ in range(COMES_BACK):
                seen.append(await wire.look())
                assert not wire.lies(seen[-1])
            assert wire.truth in seen, f"not back after {COMES_BACK} looks: {seen[-1]}"
        finally:
            await wire.transport.close()


def between(scheme: str, port: int) -> AbstractAsyncContextManager[Proxy]:
    return udp_proxy(port) if scheme == "snmp" else tcp_proxy(port)


@pytest.mark.parametrize("way", ["to_client", "to_server"])
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_reading_is_true_or_missing(
    scheme: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every fault beside the others, each with a device, a proxy and a driver of its own."""
    with caplog.at_level(logging.ERROR):
        outcomes = await asyncio.gather(
            *(fault_and_heal(scheme, fault(), way) for fault in FAULTS.values()),
            return_exceptions=True,
        )
        gc.collect()
    failed = {name: o for name, o in zip(FAULTS, outcomes, strict=True) if o is not None}
    assert not failed
    assert not [r for r in caplog.records if r.name == "asyncio"], "left to the event loop's log"


@pytest.mark.parametrize("scheme", CHECKED)
async def test_a_flipped_bit_never_becomes_a_number_where_a_checksum_is_ours(scheme: str) -> None:
    await asyncio.gather(
        *(
            fault_and_heal(scheme, deeds.flipped(random.Random(seed)), "to_client")
            for seed in range(6)
        )
    )


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_flipped_bits_never_stop_a_wire(scheme: str) -> None:
    """Without a checksum of our own a flipped value cannot be told; it must not harm the next."""
    async with server(scheme) as port, between(scheme, port) as proxy:
        wire = Wire(scheme, proxy.port)
        proxy.to_client = deeds.flipped(random.Random(11))
        for _ in range(2 * LOOKS):
            await wire.look()
        proxy.heal()
        seen = [await wire.look() for _ in range(COMES_BACK)]
        assert seen[-1] == wire.truth
        await wire.transport.close()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_dead_device_is_missing_and_nothing_else(scheme: str) -> None:
    async with server(scheme) as port, between(scheme, port) as proxy:
        wire = Wire(scheme, proxy.port)
        proxy.to_server = deeds.silent
        assert set(await wire.look()) == {Flaw.TIMEOUT}
        await wire.transport.close()
