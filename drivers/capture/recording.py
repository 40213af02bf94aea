"""From what a device said to a capture without what identifies it.

Vendor, model and firmware stay: profiles are chosen by them. Serials are not asked for. Texts at
the places of points stay where they are numbers, or words that the profile knows; names of rows
become others of the same form, everywhere at once. The readings in the file are those of the file
itself, so that it is a test as it stands; what differs from the device's own is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from drivers.capture.file import (
    Capture,
    Page,
    place_name,
    reading_name,
    shown_answer,
    shown_reading,
)
from drivers.capture.replay import Replay
from drivers.capture.scrubbing import Scrubber
from drivers.device import DeviceIdentity, ProfiledDevice
from drivers.finding.recognising import Claim, Unclear, recognise
from drivers.profile import Profile
from drivers.profile.binding import At, Binding, BoundPoint, ModbusAt, bind
from drivers.profile.codec import Answer, Decoded, number_in, text_of, unpack
from drivers.profile.places import Index
from drivers.profile.rows import COUNTED, RowName, key_of, name_of
from facility.clock import Clock
from facility.points import Flaw, PointSpec

DEVICE: Final = "device"
NAMES: Final = ("vendor", "model", "firmware")


@dataclass(frozen=True)
class Told:
    """One look at a device, as it was.

    Attributes:
        rows: as they were found.
        answers: at the places of points; none where a page was read.
        whose: at the places of vendor, model and firmware.
        readings: the points that the device has, and what they read.
        secrets: texts that are known to identify it.
        page: already scrubbed, by the same scrubber.
    """

    profile: Profile
    rows: Mapping[str, tuple[RowName, ...]]
    answers: Mapping[At, Answer]
    whose: Mapping[At, Answer]
    readings: Sequence[tuple[PointSpec, Decoded]]
    identity: DeviceIdentity
    claim: Claim | None = None
    page: Page | None = None


@dataclass(frozen=True)
class Recorded:
    """A capture, and what a person should look at before it is handed on.

    Attributes:
        replaced: text -> what stands in its place.
        kept: texts of the device that stay, and where they stand.
        differs: readings and texts that the capture tells otherwise than the device did.
    """

    capture: Capture
    replaced: Mapping[str, str]
    kept: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()


async def recorded(told: Told, scrub: Scrubber, known: Sequence[Profile], clock: Clock) -> Recorded:
    """A capture of a look.

    Args:
        told: the look.
        scrub: knows what identifies the device.
        known: profiles that it could be taken for.
        clock: for the replay; nothing of it enters the file.
    """
    profile = told.profile
    rows = {
        name: tuple(_row(row, _index(profile, name), scrub) for row in found)
        for name, found in told.rows.items()
    }
    before = bind(profile, DEVICE, found=told.rows)
    after = bind(profile, DEVICE, found=rows)
    raws = dict(_raws(before, after, told.answers, scrub))
    raws |= {place_name(at): _whose(at, answer, scrub) for at, answer in told.whose.items()}
    capture = Capture(profile.profile, rows, raws if told.page is None else {}, {}, page=told.page)
    device = ProfiledDevice(after, Replay(capture), clock)
    readings, differs = await _replayed(device, before, told.readings)
    identity, others = await _identity(device, told.identity)
    claim, why = _claim(told.claim, profile, scrub, known)
    kept = dict(identity)
    if claim is not None:
        kept["sysDescr"] = claim.description
    return Recorded(
        replace(capture, readings=readings, identity=identity, claim=claim),
        scrub.replaced,
        kept,
        (*differs, *others, *why),
    )


def _index(profile: Profile, table: str) -> Index:
    """What stands for a row of a table in an SNMP index."""
    for entry in profile.points:
        if entry.table == table and entry.at.snmp is not None:
            return entry.at.snmp.index
    return COUNTED


def _row(row: RowName, index: Index, scrub: Scrubber) -> RowName:
    """A row with the same numbers and other texts."""
    if isinstance(row, int):
        return row
    pieces = key_of(row, index)
    return name_of(tuple(p if isinstance(p, int) else scrub.name(p) for p in pieces))


def _raws(
    before: Binding, after: Binding, answers: Mapping[At, Answer], scrub: Scrubber
) -> Iterator[tuple[str, object]]:
    for was, now in zip(before.all(), after.all(), strict=True):
        for at, there in zip(was.places, now.places, strict=True):
            answer = answers.get(at, Flaw.TIMEOUT)
            yield place_name(there), _plain(was, at, answer, scrub)


def _plain(point: BoundPoint, at: At, answer: Answer, scrub: Scrubber) -> object:
    """An answer at a point's place: a text stays if it is a number or a word of the profile."""
    unpacked = None if isinstance(answer, Flaw) else unpack(at, answer)
    text = unpacked[0] if unpacked is not None else None
    if not isinstance(text, str):
        return shown_answer(answer)
    words = {str(word) for word in (*point.entry.sentinels, *point.switched)}
    if text.strip() in words or not text.strip() or number_in(text) is not None:
        return shown_answer(answer)
    if isinstance(at, ModbusAt):
        return [0] * at.count
    return scrub.name(text)


def _whose(at: At, answer: Answer, scrub: Scrubber) -> object:
    """An answer at a place of the identity, scrubbed where it is a text."""
    text = text_of(answer, at)
    if text is None or isinstance(answer, int | float):
        return shown_answer(answer)
    scrubbed = scrub.text(text)
    if isinstance(at, ModbusAt):
        return shown_answer(answer) if scrubbed == text else _registers(at, scrubbed)
    return scrubbed


def _registers(at: ModbusAt, text: str) -> list[int]:
    """A text as the registers of a place, cut where they end."""
    octets = text.encode("ascii", "replace")
    if at.where.chars != "both":
        high = at.where.chars == "high"
        octets = b"".join(bytes((o, 0) if high else (0, o)) for o in octets)
    octets = octets.ljust(2 * at.count, b"\0")[: 2 * at.count]
    pairs = [octets[i : i + 2] for i in range(0, len(octets), 2)]
    return [int.from_bytes(pair, at.where.byte_order) for pair in pairs]


async def _replayed(
    device: ProfiledDevice, before: Binding, live: Sequence[tuple[PointSpec, Decoded]]
) -> tuple[dict[str, float | str], tuple[str, ...]]:
    """What the capture reads, of the points that the device has; what differs from the device."""
    seen = {spec.id: shown_reading(decoded) for spec, decoded in live}
    readings: dict[str, float | str] = {}
    differs = []
    for was, layout in zip(before.layouts, device.layouts, strict=True):
        looked = await device.look(layout)
        for old, spec, decoded in zip(was.points, layout.points, looked, strict=True):
            if old.id in seen:
                reading = readings[reading_name(spec)] = shown_reading(decoded)
                if reading != seen[old.id]:
                    differs.append(f"{reading_name(spec)}: {seen[old.id]} became {reading}")
    return readings, tuple(differs)


async def _identity(
    device: ProfiledDevice, live: DeviceIdentity
) -> tuple[dict[str, str], tuple[str, ...]]:
    read = await device.identify()
    told = {name: getattr(read, name) for name in NAMES}
    differs = tuple(
        f"{name}: {getattr(live, name)} became {text}"
        for name, text in told.items()
        if text != getattr(live, name)
    )
    return {name: text for name, text in told.items() if text is not None}, differs


def _claim(
    claim: Claim | None, profile: Profile, scrub: Scrubber, known: Sequence[Profile]
) -> tuple[Claim | None, tuple[str, ...]]:
    """What the device says of itself, if a profile is still found by it; why not, otherwise."""
    if claim is None:
        return None, ()
    told = replace(
        claim,
        description=scrub.text(claim.description),
        firmware={name: scrub.text(text) for name, text in claim.firmware.items()},
    )
    try:
        found = recognise(known, told).profile
    except Unclear as error:
        found = str(error)
    if found == profile.profile:
        return told, ()
    return None, (f"sysObjectID and sysDescr are left out: by them it would be {found}",)
