"""What the drivers know of a facility file's devices and broker, for `wattkeeper check`.

The very code that makes a device at the start says here whether it could.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drivers.address import parse_address
from drivers.catalog import offers, profiles
from drivers.mqtt.addressing import is_pattern, is_topic, split_url
from drivers.profile.binding import bind, reading
from facility.checking import Offers
from facility.config import DeviceConfig

LONGEST_PREFIX = 1000


@dataclass(frozen=True)
class DriverKnowledge:
    """Answers to `facility.checking.Known`."""

    offers: Offers

    @classmethod
    def shipped(cls) -> DriverKnowledge:
        """Of the profiles that ship with Wattkeeper."""
        return cls(offers())

    def device_fault(self, device: DeviceConfig) -> tuple[str, str] | None:
        """The key of a device's entry that no device can be made of, and why; None if one can."""
        profile = profiles()[device.profile]
        try:
            address = parse_address(device.address)
        except ValueError as error:
            return "address", str(error)
        if address.protocol != profile.protocol:
            return "address", f"{device.address!r}: {device.profile} speaks {profile.protocol}"
        if address.scheme == "mqtt" and not is_topic(address.topic):
            return "address", f"{device.address!r}: an MQTT topic without + and # is due"
        try:
            reading(bind(profile, "x", device.parameters, period_s=device.period))
        except ValueError as error:
            return "parameters", str(error)
        return None

    def clashes(self, devices: Mapping[str, DeviceConfig]) -> Iterator[tuple[str, str, str]]:
        """Devices that cannot both be as they say: name, key, and why.

        They share a line or a socket but not its settings, or one device is two meters: what it
        reads would count twice, and be a second witness of its own word.
        """
        yield from _twice(devices)
        first: dict[str, tuple[str, object]] = {}
        for name, device in devices.items():
            try:
                address = parse_address(device.address)
            except ValueError:
                continue  # `device_fault` tells
            if address.protocol != "modbus":
                continue
            wire, settings = address.wire
            other, theirs = first.setdefault(wire, (name, settings))
            if settings != theirs:
                words = f"{other} is at {wire} too, with other settings ({devices[other].address})"
                yield name, "address", words

    def broker_fault(self, url: str, prefix: str) -> tuple[str, str] | None:
        """The key of `agents` that is wrong, and why; None when both can be used."""
        try:
            split_url(url)
        except ValueError as error:
            return "broker", str(error)
        if not is_topic(prefix) or not is_pattern(prefix) or len(prefix) > LONGEST_PREFIX:
            return "topic_prefix", f"{prefix[:60]!r} is no MQTT topic"
        return None


def _twice(devices: Mapping[str, DeviceConfig]) -> Iterator[tuple[str, str, str]]:
    seen: dict[tuple[object, ...], str] = {}
    for name, device in devices.items():
        about = device.measures
        kind = "feed" if about.feed else "element" if about.element else None
        kind = kind or ("load" if about.load else "node" if about.node else None)
        if kind is None:  # a sensor may stand between two racks
            continue
        try:
            where = parse_address(device.address)
        except ValueError:
            continue  # `device_fault` tells
        rows = tuple(sorted(device.parameters.items()))
        key = (kind, where, device.broker, device.auth, device.profile, rows)
        other = seen.setdefault(key, name)
        if other != name:
            yield name, "address", f"{other} is the same device and measures another {kind}"
