"""`wattkeeper demo`: simulate a hall and run it."""

from __future__ import annotations

import asyncio
import json as jsonlib
import socket
from pathlib import Path

import typer

import facility
from api.commands.refusing import refuse, refuse_words
from api.demo.children import ChildDied
from api.demo.report import sentences
from api.demo.running import DemoOptions, run_demo
from drivers.known import DriverKnowledge
from drivers.mqtt.addressing import split_url
from drivers.sim import scenarios
from facility.checking import examine
from facility.config import Facility
from facility.units import QuantityError, parse_quantity

MAX_SECONDS = 7 * 86400.0


def run(
    for_: str | None,
    scenario: str,
    seed: int,
    config: str | None,
    record: str | None,
    port: int,
    broker: str | None,
    *,
    json: bool,
) -> int:
    """Run the demo and print its answer; 0 done, 1 a faulty file, 2 usage, 70 a child died."""
    seconds: float | None = None
    if for_ is not None:
        try:
            seconds = parse_quantity(for_, "time")
        except QuantityError as error:
            typer.echo(f"--for: {error}", err=True)
            return 2
        if not 10.0 <= seconds <= MAX_SECONDS:
            typer.echo("--for: between 10 s and 7 d", err=True)
            return 2
    words = _no_scenario(scenario)
    if words is not None:
        typer.echo(f"--scenario: {words}", err=True)
        return 2
    file = config or str(Path(facility.__file__).with_name("demo.yaml"))
    loaded, problems = examine(file, DriverKnowledge.shipped(), simulated=True)
    if loaded is None:
        return refuse(problems, json=json)
    words = _unusable(port, record, broker)
    if words is not None:
        return refuse_words(f"wattkeeper demo: {words}", json=json)
    drill = _drilled(loaded.facility)
    options = DemoOptions(file, scenario, seed, seconds, port, record, broker, drill)
    try:
        report = asyncio.run(run_demo(options))
    except ChildDied as error:
        return refuse_words(f"wattkeeper demo: {error}", json=json, code=70)
    if json:
        typer.echo(jsonlib.dumps(report, allow_nan=False))
    else:
        typer.echo("\n".join(sentences(report)))
    return 0


def _drilled(facility: Facility) -> str | None:
    """What a corrective hall drills before the scenario: its last PDU, else its last element."""
    if facility.power.mode != "corrective":
        return None
    elements = facility.power.elements
    return [*elements, *(name for name, e in elements.items() if e.kind == "pdu")][-1]


def _no_scenario(scenario: str) -> str | None:
    """Why there is no such scenario; None if there is one. A name, or a file NAME.yaml."""
    known = scenarios.names()
    if not scenario.endswith(".yaml"):
        return None if scenario in known else f"no {scenario!r}; one of {', '.join(known)}"
    try:
        scenarios.load(scenario)
    except OSError as error:
        return f"{scenario}: {error.strerror or error}"
    except ValueError as error:
        return str(error)
    return None


def _unusable(port: int, record: str | None, broker: str | None) -> str | None:
    """What the demo could not use, said before anything starts; None when all is well."""
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    except OSError as error:
        return f"port {port}: {error.strerror or error}; --port 0 takes a free one"
    if record is not None and not Path(record).absolute().parent.is_dir():
        return f"--record {record}: there is no such folder"
    if record is not None and Path(record).is_dir():
        return f"--record {record}: is a folder"
    if broker is not None:
        try:
            split_url(broker)
        except ValueError as error:
            return f"--broker: {error}"
    return None
