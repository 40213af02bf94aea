"""Devices that publish on a broker, and what they share there."""

from __future__ import annotations

from functools import cached_property

from drivers.address import Address
from drivers.dsx.device import DsxDevice
from drivers.dsx.exchange import Exchange
from drivers.mqtt.device import MqttDevice
from drivers.mqtt.latest import Latest
from drivers.profile.binding import Binding
from facility.clock import Clock
from facility.ports import Bus, Device

#: protocols of profiles whose devices publish
PROTOCOLS = frozenset({"mqtt", "dsx"})


class Broker:
    """A broker as its devices see it.

    Attributes:
        bus: started by its owner.
        name: what health reports call it.
    """

    def __init__(
        self, bus: Bus, clock: Clock, name: str = "broker", integration: str | None = None
    ) -> None:
        """Take the bus; `integration` is our identifier at a BMS on the DSX Exchange."""
        self.bus, self.name = bus, name
        self._clock, self._integration = clock, integration

    @cached_property
    def latest(self) -> Latest:
        """The newest message of each topic in use."""
        return Latest(self.bus, self._clock)

    @cached_property
    def exchange(self) -> Exchange:
        """The DSX Exchange on it."""
        return Exchange(self.bus, self._clock, self.latest, self._integration)

    def device(self, binding: Binding, address: Address) -> Device:
        """A device that publishes here.

        Raises:
            ValueError: the address does not fit the profile.
        """
        if address.protocol != binding.profile.protocol:
            raise ValueError(f"profile {binding.profile.profile} speaks {binding.profile.protocol}")
        if address.protocol == "dsx":
            return DsxDevice(binding, self.exchange, self._clock, address.topic, endpoint=self.name)
        return MqttDevice(
            binding,
            self.bus,
            self._clock,
            address.topic,
            endpoint=self.name,
            latest=self.latest,
        )
