"""`wattkeeper bench NAME`: run a benchmark of the checkout and print its figures."""

from __future__ import annotations

import importlib
import json as jsonlib
import os
import platform
from pathlib import Path
from typing import Any

import typer


def run(name: str, *, json: bool) -> int:
    """Run `tests/bench/NAME.py`; 2 when there is none (an installed wheel carries no benches)."""
    folder = Path(__file__).resolve().parents[2] / "tests" / "bench"
    module = name.replace("-", "_")
    known = sorted(p.stem.replace("_", "-") for p in folder.glob("[a-z]*.py"))
    if name not in known:
        there = ", ".join(known) or "none: benches run from a checkout"
        typer.echo(f"no bench {name!r}; there are {there}", err=True)
        return 2
    result: dict[str, Any] = importlib.import_module(f"tests.bench.{module}").measure()
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    document = {"bench": name, "machine": machine, "figures": {}, "peers": {}, "ratios": {}}
    document |= result
    if json:
        typer.echo(jsonlib.dumps(document, allow_nan=False))
        return 0
    for section in ("figures", "peers", "ratios"):
        for figure, value in document[section].items():  # type: ignore[attr-defined]
            typer.echo(f"{figure:40} {value}")
    return 0
