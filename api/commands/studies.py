"""`wattkeeper headroom` and `wattkeeper allocate`: studies of a file, no server needed."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import typer

from api.commands.loads_file import StatedLoads, read_loads
from api.commands.refusing import refuse
from api.commands.tables import allocation_text, headroom_text
from controllers.allocation import Plan, Problem, heat_rows, solve
from controllers.headroom import Headroom, study
from facility.checking import examine
from facility.clock import SystemClock
from facility.config import Facility
from facility.errors import ConfigError
from facility.topology import Topology, cases_json, named, suggestion

NO, USAGE = 1, 2


def headroom(path: str, loads_path: str | None, fail: Sequence[str], json: bool) -> int:
    """N+1 of a file; 0 when no headroom is negative, 1 when one is or the file is wrong."""
    read = _read(path, loads_path, fail, json=json)
    if isinstance(read, int):
        return read
    facility, topology, loads = read
    load_w = topology.nameplate_w.copy()
    for name, watts in loads.load_w.items():
        load_w[topology.load_index[name]] = watts
    answer = study(topology, load_w, loads.split, _phases(loads))
    document = {
        **answer.to_json(),
        "losses": cases_json(topology, facility.cooling.loops),
    }
    _print(jsonlib.dumps(document) if json else headroom_text(answer))
    return 0 if answer.ok else NO


def allocate(
    path: str,
    loads_path: str | None,
    fail: Sequence[str],
    policy: Literal["efficiency", "throughput"],
    json: bool,
) -> int:
    """Caps for a file; 0 when a plan fits, 1 when none does or the file is wrong."""
    read = _read(path, loads_path, fail, json=json)
    if isinstance(read, int):
        return read
    facility, topology, loads = read
    clock = SystemClock()
    start_s = clock.monotonic_s()
    plan, answer = find_plan(facility, topology, loads, policy)
    seconds = clock.monotonic_s() - start_s
    if json:
        _print(jsonlib.dumps(allocation_json(plan, answer, seconds)))
    else:
        _print(allocation_text(plan, answer, seconds))
    return 0 if plan.feasible else NO


def find_plan(
    facility: Facility,
    topology: Topology,
    loads: StatedLoads,
    policy: Literal["efficiency", "throughput"],
) -> tuple[Plan, Headroom]:
    """The plan of a file study, and the headroom that it leaves.

    A rack with nodes takes only its split from the loads file: its load follows from its caps.
    """
    managed = {node.rack for node in facility.nodes.values()}
    problem = Problem.of(
        topology,
        facility.nodes,
        policy=policy,
        load_w={name: w for name, w in loads.load_w.items() if name not in managed},
        split=loads.split,
        phases=_phases(loads),
        heat=heat_rows(topology, facility.cooling.loops),
    )
    plan = solve(problem)
    load_w = problem.load_w(problem.unit_caps(plan.caps_w))
    return plan, study(topology, load_w, loads.split, _phases(loads))


def allocation_json(plan: Plan, answer: Headroom, seconds: float) -> dict[str, Any]:
    """Headroom's answer at the caps found, with the allocation added."""
    return {**answer.to_json(), **plan.to_json(), "seconds": round(seconds, 6)}


def _read(
    path: str, loads_path: str | None, fail: Sequence[str], *, json: bool
) -> tuple[Facility, Topology, StatedLoads] | int:
    loaded, problems = examine(path)
    if loaded is None:
        return refuse(problems, json=json)
    topology = Topology.of(loaded.facility.power)
    meant = {name: named(name, topology.elements) for name in fail}
    strange = [name for name, element in meant.items() if element is None]
    for name in strange:
        hint = suggestion(name, topology.elements)
        typer.echo(f"--fail {name}: no such element{f' ({hint})' if hint else ''}", err=True)
    if strange:
        return USAGE
    topology = topology.without(element for element in meant.values() if element is not None)
    try:
        return loaded.facility, topology, read_loads(loads_path, topology)
    except ConfigError as error:
        return refuse(error.problems, json=json)


def _phases(loads: StatedLoads) -> Any:
    return loads.phases if np.isfinite(loads.phases).any() else None


def _print(text: str) -> None:
    typer.echo(text)
