"""What `wattkeeper poll` says when it cannot go on, so that the next try is a better one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from drivers.address import Address
from drivers.device import DeviceIdentity
from drivers.physics import CheckResult
from drivers.profile import Profile
from drivers.profile.codec import Decoded
from facility.points import Flaw, Grade, PointSpec, flaw_of, grade_of

SILENT_COMMUNITY = (
    "a wrong address, SNMP version or community, or its access list does not name this host"
)
SILENT_USER = "a wrong address, or it does not speak SNMPv3"
SILENT_TOPIC = "the broker is there, but nobody spoke at or below this topic"
#: what a device answered instead of values, and what that suggests
NOTHING = {
    Flaw.REFUSED: "it has none of the values that {profile} names: another device or firmware, "
    "or this login may not see them",
    Flaw.SENTINEL: "it says of every value that it has none",
    Flaw.UNDECODABLE: "none of its answers is what {profile} expects",
    Flaw.DEVICE_FAULT: "it answers with a fault of its own",
}


def no_profile(name: str, known: Iterable[str]) -> str:
    """A profile that is none, with those that may have been meant, or all."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.75)
    role = name.partition("/")[0] + "/"
    alike = sorted(close) or [n for n in names if n.startswith(role)] or names
    more = "" if len(alike) == len(names) else "; docs/profiles.md lists all"
    return f"no profile {name!r}; there are: {', '.join(alike)}{more}"


def unknown_by_itself(protocol: str, profiles: Iterable[Profile]) -> str:
    """Why `--profile auto` does not do here, and what can be named instead."""
    fit = [p.profile for p in profiles if p.protocol == protocol]
    why = "--profile auto goes by sysObjectID, so it needs an snmp:// target"
    return f"{why}; name one of {', '.join(fit)}"


def silence(address: Address, kind: str) -> str:
    """What a silence may come from, where the wire itself does not know.

    Args:
        address: who was silent.
        kind: of the credentials: community, community_v1, snmpv3, password.
    """
    if address.scheme == "snmp":
        return SILENT_USER if kind == "snmpv3" else SILENT_COMMUNITY
    return SILENT_TOPIC if address.scheme == "mqtt" else ""


def nothing_read(
    profile: str, readings: Sequence[tuple[PointSpec, Decoded]]
) -> tuple[CheckResult, ...]:
    """A failed check where a device answered, and yet no value came of it."""
    flaws = [flaw_of(d.quality) for _, d in readings if grade_of(d.quality) is Grade.BAD]
    if len(flaws) < len(readings):
        return ()
    often = max(set(flaws), key=flaws.count, default=Flaw.REFUSED)
    detail = NOTHING.get(often, "no value came").format(profile=profile)
    return (CheckResult("something can be read", "total", False, detail),)


def named(identity: DeviceIdentity) -> str:
    """Vendor, model, firmware and serial in one line; a vendor that its model repeats, once."""
    vendor, model = identity.vendor or "", identity.model or ""
    if model.casefold().startswith(vendor.casefold()):
        vendor = ""
    return " ".join(t for t in (vendor, model, identity.firmware, identity.serial) if t)
