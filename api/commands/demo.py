"""`wattkeeper demo`: simulate a hall and run it."""

from __future__ import annotations

import asyncio
import json as jsonlib
from pathlib import Path

import typer

import facility
from api.demo.children import ChildDied
from api.demo.report import sentences
from api.demo.running import DemoOptions, run_demo
from drivers.sim.scenarios import names as scenario_names
from facility.checking import examine
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
    known = scenario_names()
    if scenario not in known:
        typer.echo(f"--scenario: no {scenario!r}; one of {', '.join(known)}", err=True)
        return 2
    file = config or str(Path(facility.__file__).with_name("demo.yaml"))
    loaded, problems = examine(file)
    if loaded is None:
        for problem in problems:
            typer.echo(str(problem), err=True)
        return 1
    options = DemoOptions(file, scenario, seed, seconds, port, record, broker)
    try:
        report = asyncio.run(run_demo(options))
    except ChildDied as error:
        typer.echo(f"wattkeeper demo: {error}", err=True)
        return 70
    if json:
        typer.echo(jsonlib.dumps(report, allow_nan=False))
    else:
        typer.echo("\n".join(sentences(report)))
    return 0
