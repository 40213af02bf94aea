"""The MQTT brokers of a site: the agents' own, and those that devices name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api.service.overlay import Overlay
from api.service.secrets import find
from api.service.trust import context_of
from drivers.catalog import profiles
from drivers.mqtt.bus import MqttBus
from drivers.publishing import PROTOCOLS, Broker
from facility.clock import Clock
from facility.config import Agents, DeviceConfig, Facility
from facility.config import Broker as BrokerConfig

#: A link on which nobody spoke for so long is made anew; three times what a value is good for.
LEAST_SILENCE_S: Final = 30.0
SILENCES: Final = 3.0


@dataclass(frozen=True)
class Brokers:
    """Every bus of a process, by the broker's name; None is the agents' own."""

    buses: Mapping[str | None, MqttBus]
    brokers: Mapping[str | None, Broker]

    @property
    def agents(self) -> MqttBus:
        """The bus of the agents, and of devices that name no broker."""
        return self.buses[None]

    @property
    def others(self) -> tuple[MqttBus, ...]:
        """The rest, each once."""
        return tuple(bus for name, bus in self.buses.items() if name is not None)


def brokers_of(
    facility: Facility,
    overlay: Overlay | None,
    clock: Clock,
    rng: random.Random,
    *,
    every: bool = False,
) -> Brokers:
    """A bus for each broker that a device uses, or for every one; none is started.

    A simulation has one broker.

    Raises:
        SecretMissing: a password is not where the file says.
        TlsUnusable: a file of a broker's TLS cannot be used.
    """
    name = f"wattkeeper-{facility.site.name}".replace(" ", "-")
    if overlay is not None:
        bus = MqttBus(overlay.broker, name=name, clock=clock, rng=rng)
        return Brokers({None: bus}, dict.fromkeys((None, *facility.brokers), Broker(bus, clock)))
    own = _bus(facility, facility.agents, facility.agents.broker, None, name, clock, rng)
    buses: dict[str | None, MqttBus] = {None: own}
    brokers: dict[str | None, Broker] = {None: Broker(own, clock)}
    for key, entry in facility.brokers.items():
        if every or any(device.broker == key for device in facility.devices.values()):
            buses[key] = _bus(facility, entry, entry.url, key, name, clock, rng)
            brokers[key] = Broker(buses[key], clock, f"broker {key}", entry.integration)
    return Brokers(buses, brokers)


def _bus(
    facility: Facility,
    entry: Agents | BrokerConfig,
    url: str,
    key: str | None,
    name: str,
    clock: Clock,
    rng: random.Random,
) -> MqttBus:
    auth = facility.auth.get(entry.auth) if entry.auth is not None else None
    return MqttBus(
        url,
        name=name,
        clock=clock,
        rng=rng,
        user=auth.user if auth is not None else None,
        password=find(auth.secret) if auth is not None else None,
        tls=None if entry.tls is None else context_of(entry.tls),
        identifier=entry.client_id,
        silence_s=silence_s(facility, key),
    )


def silence_s(facility: Facility, broker: str | None) -> float | None:
    """How long nobody may be heard on a broker before the link is doubted; None: nobody speaks."""
    speakers = [
        _good_for_s(device)
        for device in facility.devices.values()
        if device.broker == broker and profiles()[device.profile].protocol in PROTOCOLS
    ]
    if broker is None and facility.nodes:
        speakers.append(0.0)
    return max(LEAST_SILENCE_S, SILENCES * min(speakers)) if speakers else None


def _good_for_s(device: DeviceConfig) -> float:
    classes = profiles()[device.profile].classes.values()
    stretch = 1.0 if device.period is None else device.period / min(c.period for c in classes)
    return min(c.stale_after for c in classes) * max(stretch, 1.0)
