"""Which profile a device is for, by what it says of itself, and whether it still is.

All that a profile's `match` says must hold. Among those that fit, the one that says most counts:
a longer sysObjectID, then a text of sysDescr, a variable that must be there, a range of firmware.
Two that say as much are told to a person: a wrong profile reads wrong numbers, silently.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from drivers.finding.walking import Asks, Oid
from drivers.profile import FirmwareRange, Profile
from drivers.profile.binding import SnmpAt
from drivers.profile.codec import Answer, text_of
from facility.points import Flaw

SYS_DESCR: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 1, 0)
SYS_OBJECT_ID: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 2, 0)


@dataclass(frozen=True)
class Claim:
    """What a device says of itself.

    Attributes:
        object_id: sysObjectID; empty where it has none, or one that is no OID.
        description: sysDescr.
        has: variables that a profile asked for, and whether they are there.
        firmware: as each profile's identity reads it, by profile.
        whole: whether every question was answered; what was not answered counts as not there.
    """

    object_id: Oid = ()
    description: str = ""
    has: Mapping[Oid, bool] = field(default_factory=dict)
    firmware: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True


class Unclear(Exception):
    """More than one profile fits, or none; the text says so to a person.

    Attributes:
        alike: names of those that fit equally well; empty when none does.
    """

    def __init__(self, text: str, alike: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.alike = alike


def fits(profile: Profile, claim: Claim) -> bool:
    """Whether all that the profile's `match` says holds; one that says nothing fits nothing."""
    match = profile.match
    if not (match.sys_object_ids or match.describes):
        return False
    if match.sys_object_ids and _depth(profile, claim) == 0:
        return False
    if match.describes and not any(text in claim.description for text in match.describes):
        return False
    if not all(claim.has.get(oid, False) for oid in match.answers):
        return False
    return match.firmware is None or _within(claim.firmware.get(profile.profile), match.firmware)


def recognise(known: Iterable[Profile], claim: Claim) -> Profile:
    """The one profile that fits best.

    Raises:
        Unclear: none fits, or two fit equally well.
    """
    scored = sorted(((_score(p, claim), p.profile, p) for p in known if fits(p, claim)), key=_key)
    if not scored:
        told = ".".join(map(str, claim.object_id)) or "none"
        raise Unclear(f"no profile knows sysObjectID {told} ({claim.description[:80]!r})")
    best = scored[-1]
    alike = tuple(name for score, name, _ in scored if score == best[0])
    if len(alike) > 1:
        raise Unclear(f"it may be any of {', '.join(alike)}: say which with --profile", alike)
    return best[2]


async def claim_of(agent: Asks, known: Iterable[Profile]) -> Claim | None:
    """Ask a device what `match` needs to know; None when it does not answer."""
    heard: list[Answer] = []

    async def get(oid: Oid) -> Answer:
        heard.append(await agent.get(oid))
        return heard[-1]

    object_id, description = await get(SYS_OBJECT_ID), await get(SYS_DESCR)
    if object_id is Flaw.TIMEOUT and description is Flaw.TIMEOUT:
        return None
    claim = Claim(_oid(object_id), _text(description))
    has: dict[Oid, bool] = {}
    firmware: dict[str, str] = {}
    for profile in known:
        match = profile.match
        so_far = not match.sys_object_ids or _depth(profile, claim) > 0
        so_far &= not match.describes or any(t in claim.description for t in match.describes)
        if not so_far:
            continue
        for oid in match.answers:
            if oid not in has:
                has[oid] = not isinstance(await get(oid), Flaw)
        if match.firmware is not None:
            firmware[profile.profile] = await _firmware(get, profile)
    # By identity: a flaw is also a number.
    lost = any(answer is Flaw.TIMEOUT or answer is Flaw.DEVICE_FAULT for answer in heard)
    return Claim(claim.object_id, claim.description, has, firmware, not lost)


async def _firmware(get: Callable[[Oid], Awaitable[Answer]], profile: Profile) -> str:
    """The firmware as the profile's identity reads it; empty when it does not say."""
    for source in profile.identity.firmware:
        if source.at is None or source.at.snmp is None:
            continue
        at = SnmpAt(source.at.snmp, source.at.snmp.oid)
        text = text_of(await get(at.oid), at, source.after, source.until)
        if text is not None:
            return text
    return ""


def _key(scored: tuple[tuple[int, ...], str, Profile]) -> tuple[tuple[int, ...], str]:
    return scored[0], scored[1]


def _depth(profile: Profile, claim: Claim) -> int:
    """Arcs of the longest sysObjectID that the device's equals or lies below."""
    found = [
        len(arcs) for arcs in profile.match.sys_object_ids if claim.object_id[: len(arcs)] == arcs
    ]
    return max(found, default=0)


def _score(profile: Profile, claim: Claim) -> tuple[int, ...]:
    match = profile.match
    told = (match.describes, match.answers, match.firmware)
    return (_depth(profile, claim), *(int(bool(piece)) for piece in told))


def _oid(answer: Answer) -> Oid:
    """A sysObjectID; some agents send nonsense there, which says nothing."""
    if not isinstance(answer, str) or not re.fullmatch(r"\.?\d{1,10}(\.\d{1,10})*", answer):
        return ()
    return tuple(int(arc) for arc in answer.strip(".").split("."))


def _text(answer: Answer) -> str:
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d{1,9}", version))


def _within(version: str | None, wanted: FirmwareRange) -> bool:
    numbers = _numbers(version or "")
    if not numbers:
        return False
    if wanted.at_least is not None and numbers < _numbers(wanted.at_least):
        return False
    return wanted.below is None or numbers < _numbers(wanted.below)
