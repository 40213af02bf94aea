"""`wattkeeper capacity FILE`: what a hall can still take, by its file; no server needed."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import typer

from api.commands.loads_file import read_loads
from api.commands.refusing import refuse
from api.commands.tables import table
from controllers.capacity import Fit, Wish, rack_fits, report, report_text, server_fits
from controllers.capacity.floors import floors_w
from controllers.capacity.live import row_named, stands_in
from controllers.capacity.report import MARGIN
from facility.checking import examine
from facility.config import Facility
from facility.errors import ConfigError
from facility.points import FloatArray
from facility.topology import Topology, named, suggestion
from facility.units import QuantityError, parse_quantity

NO, USAGE = 1, 2


@dataclass(frozen=True)
class Asked:
    """What stands on the command line.

    Attributes:
        rack, row: which question; neither: the report.
        add: "10 kW"; like: a rack.
    """

    rack: str | None = None
    row: str | None = None
    add: str | None = None
    like: str | None = None
    phase: Literal["L1", "L2", "L3"] | None = None
    units: int | None = None
    weight: str | None = None
    ports: int | None = None
    lot: int = 1
    margin: str = f"{100.0 * MARGIN:g} %"


def run(path: str, loads_path: str | None, asked: Asked, *, json: bool) -> int:
    """Answer; 0 when it fits, or is N+1 with caps at their floors; 1 when not, or a wrong file."""
    loaded, problems = examine(path)
    if loaded is None:
        return refuse(problems, json=json)
    facility = loaded.facility
    topology = Topology.of(facility.power)
    try:
        stated = read_loads(loads_path, topology)
    except ConfigError as error:
        return refuse(error.problems, json=json)
    load_w = np.array(topology.nameplate_w)
    for name, watts in stated.load_w.items():
        load_w[topology.load_index[name]] = watts
    try:
        add_w = None if asked.add is None else parse_quantity(asked.add, "power")
        weight = None if asked.weight is None else parse_quantity(asked.weight, "mass")
        margin = parse_quantity(asked.margin, "ratio")
    except QuantityError as error:
        typer.echo(str(error), err=True)
        return USAGE
    if (add_w is not None and add_w <= 0.0) or not 0.0 <= margin < 1.0:
        typer.echo("--add must be above zero, --margin from 0 % to less than 100 %", err=True)
        return USAGE
    stray = _stray(asked, weight)
    if stray is not None:
        typer.echo(stray, err=True)
        return USAGE
    if asked.rack is None and asked.row is None:
        found = report(
            facility,
            topology,
            load_w,
            split=stated.split,
            rack_w=add_w,
            lot=asked.lot,
            margin=margin,
        )
        typer.echo(jsonlib.dumps(found) if json else report_text(found))
        return 0 if all(row["n_plus_1_at_floors"] for row in found["levels"]) else NO
    wish = Wish(add_w or 10_000.0, asked.phase, asked.units, weight, asked.ports)
    fit = _fit(facility, topology, asked, wish, load_w, stated.split)
    if fit is None:
        return USAGE
    typer.echo(jsonlib.dumps(fit.to_json()) if json else fit_text(fit))
    return NO if fit.verdict == "no" else 0


def _stray(asked: Asked, weight_kg: float | None) -> str | None:
    """What of the question would be left unanswered without a word, or cannot be."""
    if weight_kg is not None and weight_kg <= 0.0:
        return "--weight must be above zero"
    if asked.rack is not None and asked.row is not None:
        return "--rack and --row are two questions; ask one at a time"
    if asked.like is not None and asked.row is None:
        return "--like goes with --row"
    things = (asked.units, asked.weight, asked.ports)
    if asked.rack is None and any(thing is not None for thing in things):
        return "--units, --weight and --ports go with --rack"
    return None


def _fit(
    facility: Facility,
    topology: Topology,
    asked: Asked,
    wish: Wish,
    load_w: FloatArray,
    split: FloatArray | None,
) -> Fit | None:
    """The answer, or None after saying which name is wrong."""
    loops, racks = facility.cooling.loops, facility.power.racks
    floors = floors_w(topology, facility.nodes, load_w)
    if asked.rack is not None:
        rack = named(asked.rack, racks)
        if rack is None:
            _unknown("--rack", asked.rack, list(racks))
            return None
        return server_fits(topology, loops, rack, wish, load_w, split=split, floors_w=floors)
    row = asked.row or ""
    known = row_named(facility.power, row)
    if known is None:
        _unknown("--row", row, [*facility.power.rows, *facility.power.elements])
        return None
    like = known[0] if asked.like is None else named(asked.like, racks)
    if like is None:
        _unknown("--like", str(asked.like), list(racks))
        return None
    if not stands_in(facility.power, row, like):
        typer.echo(f"--like {like}: not of {row}, it hangs on other feeds", err=True)
        return None
    return rack_fits(
        topology, loops, row, like, known[1], wish, load_w, split=split, floors_w=floors
    )


def _unknown(option: str, name: str, known: list[str]) -> None:
    hint = suggestion(name, known)
    typer.echo(f"{option} {name}: no such name{f' ({hint})' if hint else ''}", err=True)


def fit_text(fit: Fit) -> str:
    """The answer as a sentence and a table of what limits it."""
    rows = [
        [
            bound.side or "both",
            bound.element,
            bound.phase or "-",
            bound.case,
            f"{bound.room_w / 1000.0:.1f}",
        ]
        for bound in fit.room.bounds
    ]
    rows += [
        ["loop", heat.loop, "-", heat.case, f"{heat.room_w / 1000.0:.1f}"] for heat in fit.heat
    ]
    if not rows:
        return fit.text
    return f"{fit.text}\n\n" + table(["side", "limit", "phase", "case", "room kW"], rows)
