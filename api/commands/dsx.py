"""`wattkeeper import dsx`: what a BMS on the DSX Exchange says, against a facility file."""

from __future__ import annotations

import asyncio
import json as jsonlib
import random
from dataclasses import asdict
from typing import Final

import typer

from api.commands.refusing import refuse, refuse_words
from api.importing.dsx import Told, compare
from api.service.brokers import brokers_of
from api.service.secrets import SecretMissing
from drivers.dsx.metadata import PointMeta
from facility.clock import SystemClock
from facility.config import Facility
from facility.errors import ConfigError
from facility.loading import load

#: Metadata is retained and comes at once; so long without another point, and all are here.
QUIET_S: Final = 2.0
CONNECT_S: Final = 10.0
#: what YAML reads as something else than a text
_NO_NAMES: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class Unreachable(Exception):
    """The broker does not take us."""


def dsx(file: str, broker: str | None, within_s: float, *, json: bool) -> int:
    """Listen to the exchange and compare; writes neither file nor broker.

    Args:
        file: facility file.
        broker: a key of its `brokers`; the agents' own when None.
        within_s: how long to listen at most.
        json: print one document.

    Returns:
        Exit code: 0 they agree, 1 they do not or nothing was heard, 2 no such broker.
    """
    try:
        facility = load(file)
        if broker is not None and broker not in facility.brokers:
            known = ", ".join(facility.brokers) or "none"
            return refuse_words(f"{file} has no broker {broker!r} ({known})", json=json, code=2)
        points = asyncio.run(_listen(facility, broker, within_s))
    except ConfigError as error:
        return refuse(error.problems, json=json)
    except (Unreachable, SecretMissing, ValueError) as error:
        return refuse_words(str(error), json=json)
    if not points:
        return refuse_words("no metadata of a BMS is heard there", json=json)
    told = compare(facility, points)
    if json:
        document = {"ok": not told.differences, "points": len(points), **asdict(told)}
        typer.echo(jsonlib.dumps(document))
    else:
        typer.echo(_words(told, broker, len(points)))
    return 1 if told.differences else 0


async def _listen(facility: Facility, name: str | None, within_s: float) -> list[PointMeta]:
    clock = SystemClock()
    brokers = brokers_of(facility, None, clock, random.Random(), every=True)
    bus, exchange = brokers.buses[name], brokers.brokers[name].exchange
    await bus.start()
    try:
        began_s = heard_s = clock.monotonic_s()
        count = 0
        while clock.monotonic_s() - began_s < within_s:
            await asyncio.sleep(0.1)
            now_s = clock.monotonic_s()
            if not bus.connections and now_s - began_s > CONNECT_S:
                raise Unreachable("the broker cannot be reached, or refuses the login")
            if len(exchange.points) != count:
                count, heard_s = len(exchange.points), now_s
            if count and now_s - heard_s > QUIET_S:
                break
        if not bus.connections:
            raise Unreachable("the broker cannot be reached, or refuses the login")
        return list(exchange.points.values())
    finally:
        await bus.close()


def _words(told: Told, broker: str | None, points: int) -> str:
    lines = [f"# {points} points"]
    if told.unread:
        lines.append("# on the exchange, and read by no device of the file; `measures` is yours:")
        lines.append("devices:")
        where = "" if broker is None else f", broker: {broker}"
        taken: set[str] = set()
        for profile, object_id, name in told.unread:
            address = jsonlib.dumps(f"dsx:{object_id}", ensure_ascii=False)
            key = _key(object_id, profile, taken)
            lines.append(f"  {key}: {{profile: {profile}, address: {address}{where}}}  # {name}")
    lines += [f"DIFFERS  {words}" for words in told.differences]
    lines += [f"# the BMS does not say whom {name} serves" for name in told.silent]
    if not told.differences:
        lines.append("# nothing contradicts the file")
    return "\n".join(lines)


def _key(object_id: str, profile: str, taken: set[str]) -> str:
    """A name for a device that a facility file takes, and that is not taken yet."""
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in object_id.casefold())
    word = slug.strip("-")[:50]
    if not word[:1].isalpha() or word in _NO_NAMES:
        word = f"{profile.rpartition('/')[2]}-{word}".strip("-")
    key, count = word, 1
    while key in taken:
        count += 1
        key = f"{word}-{count}"
    taken.add(key)
    return key
