"""Publishing what simulated MQTT devices measure: their profile backwards, as JSON, each second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from drivers.agent.protocol import dump
from drivers.mqtt.addressing import below
from drivers.profile import Profile
from drivers.profile.binding import MqttAt, Row
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import InstrumentSource
from facility.clock import Clock
from facility.config import Facility
from facility.points import Flaw
from facility.ports import Bus

SCHEME: Final = "mqtt:"
#: The uncontrolled twin stands in no facility file; the demo adds it as a device of this address.
TWIN: Final = "twin"
TWIN_PROFILE: Final = "sim/twin"
TWIN_ADDRESS: Final = "mqtt:wattkeeper-sim/twin"
#: A slow device sends every so many rounds.
SLOW_ROUNDS: Final = 3


class Publisher:
    """One simulated device on a bus."""

    def __init__(self, device: Impersonation, topic: str, bus: Bus, clock: Clock) -> None:
        self._device, self._topic, self._bus, self._clock = device, topic, bus, clock

    async def publish(self, round_number: int) -> None:
        """Send one message per topic, as healthy as the plant says that the device is."""
        health = self._device.health
        if health == "dead" or (health == "slow" and round_number % SLOW_ROUNDS):
            return
        for topic, payload in messages(self._device, self._clock.utc_ms()).items():
            full = below(self._topic, topic.replace("+", "any"))
            await self._bus.publish(full, b"\xff{garbage" if health == "garbage" else payload)


def messages(device: Impersonation, utc_ms: int) -> dict[str, bytes]:
    """What the device would publish now, by topic below its own; null for what it lacks."""
    trees: dict[str, Any] = {}
    plain: dict[str, bytes] = {}
    for at in device.places:
        if not isinstance(at, MqttAt):
            continue
        raw = device.answer(at)
        value = None if isinstance(raw, Flaw | tuple | bytes) else raw
        if not at.path:
            plain[at.topic] = b"" if value is None else str(value).encode()
            continue
        tree = trees.setdefault(at.topic, {})
        _put(tree, at.path, value)
        if at.where.time:
            _put(tree, at.where.time, utc_ms)
    return plain | {topic: dump(_lists(tree)) for topic, tree in trees.items()}


def _put(tree: dict[str | int, Any], path: Sequence[str | int | Row], value: object) -> None:
    steps = [step.place if isinstance(step, Row) else step for step in path]
    for step in steps[:-1]:
        tree = tree.setdefault(step, {})
    tree[steps[-1]] = value


def _lists(tree: Any) -> Any:
    """Turn objects whose keys are positions into arrays; positions left out become null."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(isinstance(key, int) for key in tree):
        return [_lists(tree.get(i)) for i in range(max(tree) + 1)]
    return {str(key): _lists(value) for key, value in tree.items()}


async def publish_sensors(
    plant: InstrumentSource,
    facility: Facility,
    bus: Bus,
    clock: Clock,
    profiles: Mapping[str, Profile],
    *,
    period_s: float = 1.0,
) -> None:
    """Publish every device of the file whose address is `mqtt:TOPIC`, and the twin; for ever.

    Args:
        plant: whose instruments they are.
        facility: names the devices.
        bus: already started.
        clock: for the source time.
        profiles: by name.
        period_s: between messages of one device.
    """
    wanted = [
        (name, device.profile, device.address, device.parameters)
        for name, device in facility.devices.items()
        if device.address.startswith(SCHEME)
    ]
    if TWIN not in facility.devices:
        wanted.append((TWIN, TWIN_PROFILE, TWIN_ADDRESS, {}))
    publishers = [
        Publisher(
            Impersonation(profiles[profile], name, plant, parameters),
            address.removeprefix(SCHEME),
            bus,
            clock,
        )
        for name, profile, address, parameters in wanted
    ]
    round_number, due_s = 0, clock.monotonic_s()
    while True:
        for publisher in publishers:
            await publisher.publish(round_number)
        round_number += 1
        due_s = max(due_s + period_s, clock.monotonic_s())
        await asyncio.sleep(due_s - clock.monotonic_s())
