"""The closed list of checks that physics makes of a device's readings, and how one is left out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drivers.profile.places import Strict

Check = Literal[
    "apparent power = voltage x current",
    "active power within voltage x current",
    "active power within apparent power",
    "sum of the parts = total",
    "sum of the parts within total",
    "line voltage = sqrt(3) x phase voltage",
    "line current = currents of its two legs",
    "heat = flow x temperature difference",
    "dew point = from temperature and humidity",
    "energy = power x time",
    "moves with its neighbours",
]


class Unchecked(Strict):
    """A check that does not hold for a kind of device, and why.

    Attributes:
        part: where; `*` stands for any text, as in `outlet.*`.
        because: for whoever reads the profile and wonders.
    """

    check: Check
    part: str = "*"
    because: Annotated[str, Field(min_length=10)]
