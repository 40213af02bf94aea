"""LOADS.json of the file studies: read strictly, every fault at once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from facility.errors import ConfigError, Problem
from facility.points import FloatArray
from facility.topology import Topology, phase_faults, phase_row, split_faults, suggestion
from facility.yamltree import read_text


@dataclass(frozen=True)
class StatedLoads:
    """What a loads file says.

    Attributes:
        load_w: load -> W, only those stated.
        split: float64[F]; phases: float64[F, 3], NaN rows where neither file states them.
    """

    load_w: Mapping[str, float]
    split: FloatArray
    phases: FloatArray


def read_loads(path: str | None, topology: Topology) -> StatedLoads:
    """Read a loads file; what it does not name counts as the facility file has it.

    Raises:
        ConfigError: not JSON, not finite, negative, or of something that the plant has not.
    """
    phases = np.where(topology.phases_stated[:, None], topology.phases, np.nan)
    if path is None:
        return StatedLoads({}, topology.split, phases)
    document = _document(path)
    faults: list[tuple[str, str, str | None]] = []
    load_w: dict[str, float] = {}
    split = topology.split.copy()
    racks, others = topology.racks, topology.loads[len(topology.racks) :]
    if not isinstance(document, dict):
        raise ConfigError([Problem(path, 0, 0, "", "not an object with racks and loads")])
    for section, known in (("racks", racks), ("loads", others)):
        entries = document.pop(section, {})
        if not isinstance(entries, dict):
            faults.append((section, "not an object of names", None))
            continue
        for name, entry in entries.items():
            where = f"{section}.{name}"
            if name not in known:
                what = "rack" if section == "racks" else "load"
                faults.append((where, f"no {what} {name!r}", suggestion(name, known)))
            else:
                faults += _entry(where, name, entry, topology, load_w, split, phases)
    faults += [(key, f"unknown key {key!r}", "racks or loads") for key in document]
    if faults:
        raise ConfigError([Problem(path, 0, 0, *fault) for fault in faults])
    return StatedLoads(load_w, split, phases)


def _document(path: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            if key in out:
                raise ConfigError([Problem(path, 0, 0, key, "stands twice")])
            out[key] = value
        return out

    def constant(text: str) -> float:
        raise ConfigError([Problem(path, 0, 0, "", f"{text} is no number of watts or shares")])

    try:
        text, _ = read_text(path)
        return json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=pairs, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise ConfigError([Problem(path, error.lineno, error.colno, "", error.msg)]) from None
    except ValueError:
        raise ConfigError([Problem(path, 0, 0, "", "a number has too many digits")]) from None
    except RecursionError:
        raise ConfigError([Problem(path, 0, 0, "", "nested too deeply")]) from None


def _entry(
    where: str,
    name: str,
    entry: object,
    topology: Topology,
    load_w: dict[str, float],
    split: FloatArray,
    phases: FloatArray,
) -> list[tuple[str, str, str | None]]:
    """Check one load and write what it states into `load_w`, `split` and `phases`."""
    if not isinstance(entry, dict):
        return [(where, "not an object with load_w, split, phases", None)]
    faults: list[tuple[str, str, str | None]] = [
        (f"{where}.{key}", f"unknown key {key!r}", "load_w, split or phases")
        for key in entry
        if key not in ("load_w", "split", "phases")
    ]
    watts = entry.get("load_w")
    if watts is not None:
        number = _number(watts)
        if number is None or number < 0.0:
            faults.append(
                (f"{where}.load_w", f"{watts!r} is no number of at least 0 W and below 1e15", None)
            )
        else:
            load_w[name] = number
    columns = {
        feed: topology.feed_index[(name, feed)] for load, feed in topology.feeds if load == name
    }
    stated = entry.get("split")
    if stated is not None:
        shares = _numbers(stated)
        if shares is None:
            faults.append((f"{where}.split", "not an object of numbers", None))
        else:
            wrong = split_faults(f"{where}.split", shares, columns)
            faults += wrong
            if not wrong:
                for feed, column in columns.items():
                    split[column] = shares.get(feed, 0.0)
    stated = entry.get("phases")
    if stated is not None:
        by_feed = (
            {feed: _numbers(x) for feed, x in stated.items()} if isinstance(stated, dict) else {}
        )
        good = {feed: x for feed, x in by_feed.items() if x is not None}
        if not isinstance(stated, dict) or len(good) != len(by_feed):
            faults.append((f"{where}.phases", "not an object of feeds with shares", None))
        else:
            wrong = phase_faults(f"{where}.phases", good, columns)
            faults += wrong
            for feed, x in ({} if wrong else good).items():
                phases[columns[feed]] = phase_row(x)
    return faults


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e15 else None


def _numbers(value: object) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    out = {}
    for key, item in value.items():
        number = _number(item)
        if number is None:
            return None
        out[str(key)] = number
    return out
