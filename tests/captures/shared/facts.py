"""What we hold to be true of each capture, from `facts/*.yaml`.

A file's keys are captures; of each it says:

    profile    the one that knows it; null where the device is of no family that we read
    because    why there is none
    reads      class of the test data -> how many of its rows a point reads; never fewer
    leaves     class -> why the other rows of it are read by no point
    nothing    raw, as text -> why it is no number here, though the test data took it for one
    differs    OID or class -> why our value is not the test data's
    checks     how many physics checks have all they need; every one of them must hold
    readings   part:kind -> value in canonical units, checked by hand (or the name of a flaw)
    holds      part:kind -> why a raw that elsewhere means "nothing" is a number here
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from facility.yamltree import read_tree

FOLDER = Path(__file__).resolve().parent / "facts"


@dataclass(frozen=True)
class Facts:
    """Of one capture; see the module."""

    profile: str | None
    because: str = ""
    reads: dict[str, int] = field(default_factory=dict)
    leaves: dict[str, str] = field(default_factory=dict)
    nothing: dict[str, str] = field(default_factory=dict)
    differs: dict[str, str] = field(default_factory=dict)
    checks: int = 0
    readings: dict[str, float | str] = field(default_factory=dict)
    holds: dict[str, str] = field(default_factory=dict)


def read_facts() -> dict[str, Facts]:
    """Every capture that has facts."""
    found: dict[str, Facts] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        tree, _ = read_tree(str(path))
        content: Any = tree.plain()
        for name, facts in content.items():
            assert name not in found, f"{name} has facts in two files"
            found[name] = Facts(**facts)
    return found
