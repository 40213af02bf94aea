"""Make any facility file simulatable: what it leaves out, a simulator can stand in for.

A file of one's own row may hold nothing but power and nodes. The simulated site gets the meters,
UPS cards and sensors that such a row would have, and lets itself be controlled; nothing that the
file does say is changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from facility.config import AllowWrites, Control, DeviceConfig, Facility, Measures

TWIN = "twin"
WEATHER = "weather"


def complete_for_simulation(facility: Facility) -> Facility:
    """The same facility with every rack feed and UPS metered and control allowed."""
    devices = dict(facility.devices)
    names = {*devices, *facility.nodes}
    metered = {(d.measures.rack, d.measures.feed) for d in devices.values()}
    for rack, load in facility.power.racks.items():
        for feed in load.feeds:
            if (rack, feed) not in metered:
                _add(devices, names, f"meter-{rack}-{feed}", "pdu/apc-rpdu2", rack=rack, feed=feed)
    watched = {d.measures.element for d in devices.values()}
    for element, body in facility.power.elements.items():
        if body.kind == "ups" and element not in watched:
            _add(devices, names, f"card-{element}", "ups/rfc1628", element=element)
    for sensor, profile in ((WEATHER, "sim/weather"), (TWIN, "sim/twin")):
        if not any(d.profile == profile for d in devices.values()):
            devices[_free(sensor, names)] = DeviceConfig(
                profile=profile,
                address=f"mqtt:sim/{sensor}",
                measures=Measures(nothing=True),
            )
    return facility.model_copy(
        update={
            "devices": devices,
            "control": _control(facility.control, devices),
        }
    )


def _add(
    devices: dict[str, DeviceConfig],
    names: set[str],
    wanted: str,
    profile: str,
    *,
    rack: str | None = None,
    feed: str | None = None,
    element: str | None = None,
) -> None:
    devices[_free(wanted, names)] = DeviceConfig(
        profile=profile,
        address="snmp://127.0.0.1:161",
        measures=Measures(rack=rack, feed=feed, element=element),
    )


def _free(wanted: str, names: set[str]) -> str:
    name, number = wanted, 2
    while name in names:
        name, number = f"{wanted}-{number}", number + 1
    names.add(name)
    return name


def _control(control: Control, devices: Mapping[str, DeviceConfig]) -> Control:
    if control.enabled:
        return control
    allow = [AllowWrites(points="*:total:power_cap", by="simulation")]
    if any(d.profile.startswith("cdu/") for d in devices.values()):
        allow.append(AllowWrites(points="*:loop.secondary:supply_setpoint", by="simulation"))
    return control.model_copy(update={"enabled": True, "mode": "auto", "allow": tuple(allow)})
