"""`wattkeeper check FILE...`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict

import typer

from drivers.known import DriverKnowledge
from facility.checking import examine
from facility.errors import Problem
from facility.loading import Loaded
from facility.sharing import sharing_problems


def run(files: Sequence[str], *, json: bool) -> int:
    """Check shape and meaning; 0 when every file can be run, 1 with every fault otherwise.

    Several files are halls of one site: what they take of elements in common must fit together.
    """
    known = DriverKnowledge.shipped()
    right: list[Loaded] = []
    problems: list[Problem] = []
    for file in dict.fromkeys(files):
        loaded, found = examine(file, known)
        problems.extend(found)
        if loaded is not None:
            right.append(loaded)
    problems.extend(sharing_problems(right))
    if json:
        document = {"ok": not problems, "problems": [asdict(p) for p in problems]}
        typer.echo(jsonlib.dumps(document))
        return 1 if problems else 0
    for problem in problems:
        typer.echo(str(problem), err=True)
    if not problems:
        for loaded in right:
            _praise(loaded)
    return 1 if problems else 0


def _praise(loaded: Loaded) -> None:
    facility = loaded.facility
    typer.echo(
        f"{loaded.file}: {facility.site.name}: {len(facility.power.racks)} racks, "
        f"{len(facility.nodes)} nodes, {len(facility.devices)} devices, no fault"
    )
    if not facility.devices:
        typer.echo("no devices: good for headroom, allocate and demo, not for serve")
