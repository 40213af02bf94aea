"""`wattkeeper check FILE`."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict

import typer

from drivers.known import DriverKnowledge
from facility.checking import examine


def run(file: str, *, json: bool) -> int:
    """Check shape and meaning; 0 when the file can be run, 1 with every fault otherwise."""
    loaded, problems = examine(file, DriverKnowledge.shipped())
    if json:
        document = {"ok": loaded is not None, "problems": [asdict(p) for p in problems]}
        typer.echo(jsonlib.dumps(document))
    elif loaded is None:
        for problem in problems:
            typer.echo(str(problem), err=True)
    else:
        facility = loaded.facility
        typer.echo(
            f"{file}: {facility.site.name}: {len(facility.power.racks)} racks, "
            f"{len(facility.nodes)} nodes, {len(facility.devices)} devices, no fault"
        )
        if not facility.devices:
            typer.echo("no devices: good for headroom, allocate and demo, not for serve")
    return 0 if loaded is not None else 1
