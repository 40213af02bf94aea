"""`wattkeeper poll`: read one device as its profile says, and write nothing to it."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.commands.poll_auth import credentials_from
from api.commands.poll_mqtt import kept_only, listening, published_at
from api.commands.poll_record import Recorder, refused
from api.commands.poll_words import named, no_profile, nothing_read, silence, unknown_by_itself
from api.commands.refusing import refuse, refuse_words
from drivers.address import Address, parse_address
from drivers.catalog import build_transport, profiles
from drivers.credentials import Credentials
from drivers.device import DeviceIdentity, ProfiledDevice
from drivers.finding import Asks, Unclear, claim_of, find_rows, recognise
from drivers.finding.identity import Verdict, judged
from drivers.physics import CheckResult, run_checks
from drivers.profile import Profile
from drivers.profile.binding import At, SnmpAt, bind
from drivers.profile.codec import Answer, Decoded
from drivers.profile.rows import RowName
from drivers.prometheus.transport import PrometheusTransport
from drivers.snmp import SnmpTransport
from drivers.snmp.agreement import disagreements
from drivers.transport import Links, Transport
from facility.clock import SystemClock
from facility.errors import ConfigError
from facility.points import Flaw, Grade, PointSpec, flaw_of, grade_of

USAGE = 2
READERS = ("own", "reference")
PROTOCOLS = ("snmp", "modbus", "prometheus", "mqtt")
FORMS = "snmp://, modbus://, http:// or mqtt:// addresses"
DEVICE = "device"


class Unanswered(Exception):
    """The device did not answer; the text says so to a person."""


@dataclass(frozen=True)
class Look:
    """Everything that one look at a device told."""

    profile: Profile
    identity: DeviceIdentity
    at_ms: int
    seconds: float
    requests: int
    readings: Sequence[tuple[PointSpec, Decoded]]
    checks: Sequence[CheckResult]
    answers: Mapping[At, Answer]


def poll(
    profile: str,
    target: str,
    auth: str | None,
    community: str | None,
    once: bool,
    record: str | None,
    json: bool,
    reader: str = "own",
) -> int:
    """Read a device, once or for ever.

    Args:
        profile: its name, or "auto" (by sysObjectID, SNMP only).
        target: an SNMP or Modbus address or a page, see `drivers.address`, or
            `mqtt[s]://broker[:port]/topic`.
        auth: where the SNMP community or user stands; see `credentials_from`.
        community: the community itself; only one of the two.
        once: one look; implied by `json`, which promises one document.
        record: file for a capture of the last look; one that is there is not overwritten.
        json: print the document of contracts.md instead of a table.
        reader: "own", or "reference" for a second opinion on an SNMP or Modbus device.

    Returns:
        Exit code: 0 read, whatever the checks say; 1 no answer, unknown device, or no value at
        all; 2 wrong usage.
    """
    try:
        address = published_at(target) or parse_address(target)
        chosen = None if profile == "auto" else profiles().get(profile)
        if address.protocol not in PROTOCOLS or (address.scheme == "mqtt" and not address.host):
            raise ValueError(f"{target}: poll asks devices at {FORMS}")
        if profile != "auto" and chosen is None:
            raise ValueError(no_profile(profile, profiles()))
        if profile == "auto" and address.scheme != "snmp":
            raise ValueError(unknown_by_itself(address.protocol, profiles().values()))
        if chosen is not None and chosen.protocol != address.protocol:
            raise ValueError(f"profile {profile} speaks {chosen.protocol}, not {address.protocol}")
        if reader not in READERS:
            raise ValueError(f"--reader {reader}: one of {', '.join(READERS)}")
        if reader == "reference" and address.protocol not in ("snmp", "modbus"):
            raise ValueError("--reader reference is for snmp and modbus addresses")
        credentials = credentials_from(auth, community)
        if credentials.kind == "password" and address.protocol in ("snmp", "modbus"):
            raise ValueError("--auth: a password is for pages and brokers")
        if refused(record):
            raise ValueError(refused(record))
    except ConfigError as error:  # a profile that somebody is writing
        return refuse(error.problems, json=json, code=USAGE)
    except ValueError as error:
        print(f"wattkeeper poll: {error}", file=sys.stderr)  # noqa: T201
        return USAGE
    try:
        return asyncio.run(
            _poll(chosen, target, address, credentials, once or json, record, json, reader)
        )
    except ConfigError as error:
        return refuse(error.problems, json=json, code=USAGE)
    except Unanswered as error:
        return refuse_words(f"wattkeeper poll: {error}", json=json)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return refuse_words(f"wattkeeper poll: {error}", json=json)
    except ModuleNotFoundError as error:  # the second opinion comes with the development tools
        words = f"--reader {reader} needs the Python package {error.name}"
        return refuse_words(f"wattkeeper poll: {words}", json=json, code=USAGE)
    except KeyboardInterrupt:
        return 0


async def _poll(
    chosen: Profile | None,
    target: str,
    address: Address,
    credentials: Credentials,
    once: bool,
    record: str | None,
    json: bool,
    reader: str,
) -> int:
    clock = SystemClock()
    links = Links(clock, random.SystemRandom())
    profile = chosen or await _recognise(target, address, credentials, links)
    reference = reader == "reference"
    if address.scheme == "mqtt":
        transport: Transport = listening(address, credentials, clock)
    else:
        transport = build_transport(profile, address, credentials, links, reference=reference)
    found = await _rows(profile, transport)
    known = [p for p in profiles().values() if p.protocol == profile.protocol]
    recorder = None if record is None else Recorder(Path(record), address, known, clock)
    device = ProfiledDevice(bind(profile, DEVICE, found=found), transport, clock)
    try:
        if not device.layouts:
            why = "".join(f": {check.detail}" for check in await _strange(device))
            raise Unanswered(f"{target} has nothing that {profile.profile} reads{why}")
        period_s = min(device.period_s(layout) for layout in device.layouts)
        agreed = await _agreement(device)
        strange: tuple[CheckResult, ...] | None = None
        while True:
            due_s = clock.monotonic_s() + period_s
            look = await _look(device, target, silence(address, credentials.kind))
            if strange is None:
                strange = () if chosen is None else await _strange(device)
            kept = kept_only(transport) if address.scheme == "mqtt" else ()
            empty = nothing_read(profile.profile, look.readings)
            look = replace(look, checks=(*look.checks, *agreed, *strange, *kept, *empty))
            if recorder is not None:
                told = look.answers, look.readings, look.identity
                await recorder.write(device, found, *told)
            print(_document(look, target) if json else _table(look, target), flush=True)  # noqa: T201
            if once:
                return int(bool(empty))
            await asyncio.sleep(max(due_s - clock.monotonic_s(), 0.0))
    finally:
        await device.close()


async def _recognise(
    target: str, address: Address, credentials: Credentials, links: Links
) -> Profile:
    known = [p for p in profiles().values() if p.protocol == "snmp"]
    agent = SnmpTransport(address, links, credentials)
    try:
        claim = await claim_of(agent, known)
        if claim is not None and not claim.whole:
            claim = await claim_of(agent, known)  # what was lost may tell siblings apart
    finally:
        await agent.close()
    if claim is None:
        spoken = {"community": "v2c", "community_v1": "v1"}.get(credentials.kind, "v3")
        why = agent.trouble or silence(address, credentials.kind)
        raise Unanswered(f"{target} does not answer (SNMP {spoken}, sysObjectID): {why}")
    try:
        return recognise(known, claim)
    except Unclear as error:
        more = "" if error.alike else "; name a --profile, or describe it (docs/profiles.md)"
        raise Unanswered(f"{target}: {error}{more}") from None


async def _strange(device: ProfiledDevice) -> tuple[CheckResult, ...]:
    """A failed check when the device is another than the profile that a person chose is for."""
    known = [p for p in profiles().values() if p.protocol == device.binding.profile.protocol]
    claim = await claim_of(device.transport, known) if isinstance(device.transport, Asks) else None
    verdict = Verdict() if claim is None else judged(device.binding.profile, claim, known)
    if claim is None or not claim.whole or not verdict.wrong:
        return ()
    return (CheckResult("the profile is for this device", "total", False, verdict.strange),)


async def _agreement(device: ProfiledDevice) -> tuple[CheckResult, ...]:
    """Whether an SNMP agent says the same to GETBULK as to GET, which some do not."""
    if not isinstance(device.transport, SnmpTransport):
        return ()
    places = [p.at for p in device.binding.all() if isinstance(p.at, SnmpAt)]
    found = await disagreements(device.transport, places)
    if found is None:
        return ()
    shown = [f"{'.'.join(map(str, d.name))} is {d.get!r} and {d.bulk!r}" for d in found[:3]]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    detail = "; ".join(shown) + more if found else "they say the same"
    return (CheckResult("GET = GETBULK", "total", not found, detail),)


async def _rows(profile: Profile, transport: Transport) -> dict[str, tuple[RowName, ...]]:
    if isinstance(transport, PrometheusTransport):
        return dict(await transport.numbered(profile))
    return await find_rows(profile, transport)


async def _look(device: ProfiledDevice, target: str, silent: str) -> Look:
    clock = SystemClock()
    started_s, before = clock.monotonic_s(), device.transport.requests
    identity = await device.identify()
    answers: dict[At, Answer] = {}
    readings: list[tuple[PointSpec, Decoded]] = []
    for layout in device.layouts:
        told = await device.fetch(layout)
        answers.update(told)
        readings.extend(zip(layout.points, device.decoded(layout, told), strict=True))
    dumb = all(answer is Flaw.TIMEOUT for answer in answers.values())
    if dumb or (device.trouble and all(isinstance(a, Flaw) for a in answers.values())):
        why = device.trouble or silent
        deed = "does not answer" if dumb else "gives no value"
        raise Unanswered(f"{target} {deed}{': ' if why else ''}{why}")
    profile = device.binding.profile
    absent = _absent(device, readings)
    kept = [(spec, d) for spec, d in readings if spec.id not in absent]
    believed = {
        (spec.id.part, spec.id.kind): d.value
        for spec, d in kept
        if grade_of(d.quality) is not Grade.BAD
    }
    return Look(
        profile,
        identity,
        clock.utc_ms(),
        clock.monotonic_s() - started_s,
        device.transport.requests - before,
        kept,
        run_checks(device.binding, believed),
        answers,
    )


def _absent(device: ProfiledDevice, readings: Sequence[tuple[PointSpec, Decoded]]) -> set[object]:
    """Optional points that this model does not have: its own word for it, not a fault."""
    optional = {p.spec.id for p in device.binding.all() if p.entry.optional}
    for layout in device.layouts:
        points = device.binding.points[layout.key]
        for total in device.binding.sums[layout.key]:
            if all(points[i].entry.optional for i in total.members):
                optional.add(total.spec.id)
    none = {int(Flaw.REFUSED), int(Flaw.SENTINEL)}
    return {
        spec.id
        for spec, decoded in readings
        if spec.id in optional and int(flaw_of(decoded.quality)) in none
    }


def _document(look: Look, target: str) -> str:
    at = datetime.fromtimestamp(look.at_ms / 1000.0, UTC)
    identity = look.identity
    document: dict[str, Any] = {
        "profile": look.profile.profile,
        "target": target,
        "device": {
            "vendor": identity.vendor,
            "model": identity.model,
            "firmware": identity.firmware,
            "serial": identity.serial,
        },
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "seconds": round(look.seconds, 3),
        "requests": look.requests,
        "readings": [_reading(spec, decoded) for spec, decoded in look.readings],
        "checks": [
            {"check": c.check, "part": c.part, "ok": c.ok, "detail": c.detail} for c in look.checks
        ],
    }
    return json_text.dumps(document, ensure_ascii=False, allow_nan=False)


def _reading(spec: PointSpec, decoded: Decoded) -> dict[str, Any]:
    grade, flaw = grade_of(decoded.quality), flaw_of(decoded.quality)
    return {
        "part": spec.id.part,
        "kind": spec.id.kind,
        # Scaling by tenths leaves dust in the 16th digit; no meter has ten.
        "value": None if grade is Grade.BAD else float(f"{decoded.value:.10g}"),
        "unit": spec.kind.unit,
        "quality": grade.name.lower(),
        "flaw": None if flaw is Flaw.NONE else flaw.name.lower(),
        "raw": decoded.raw,
    }


def shown_amount(spec: PointSpec, value: float | None) -> tuple[str, str]:
    """A value and its unit for people: ratios in percent, codes and plain numbers without one."""
    kind = spec.kind
    percent = kind.quantity == "ratio" and kind.name != "power_factor"
    unit = "%" if percent else "" if kind.unit in ("1", "code") else kind.unit
    if value is None:
        return "-", unit
    value *= 100.0 if percent else 1.0
    # Whole numbers whole; of others no meter has more than the seven digits of a float register.
    return f"{value:.0f}" if value == int(value) else f"{value:.7g}", unit


def _table(look: Look, target: str) -> str:
    lines = [f"{target}  {look.profile.profile}  {named(look.identity)}"]
    for spec, decoded in look.readings:
        reading = _reading(spec, decoded)
        value, unit = shown_amount(spec, reading["value"])
        state = dict(spec.states).get(int(decoded.value)) if value != "-" else None
        note = state or (
            "" if reading["flaw"] is None else f"{reading['quality']}: {reading['flaw']}"
        )
        lines.append(f"  {reading['part']:<16} {reading['kind']:<20} {value:>14} {unit:<6} {note}")
    for check in look.checks:
        lines.append(
            f"  {'ok ' if check.ok else 'BAD'} {check.check}, {check.part}: {check.detail}"
        )
    lines.append(f"  {look.requests} requests in {look.seconds:.2f} s")
    return "\n".join(lines)
