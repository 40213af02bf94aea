"""The shape of the power section of facility.yaml; see `facility.config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from facility.quantities import (
    CurrentA,
    DurationS,
    MassKg,
    PowerW,
    Share,
    TemperatureC,
    VoltageV,
    rating_text,
    resecure_of,
    share_text,
)

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$")]

#: An element, or `load:cdu-1`: a load that cools nothing, but may still draw power.
OutOfService = Annotated[
    str, Field(max_length=69, pattern=r"^(load:)?[A-Za-z0-9][A-Za-z0-9_.\-]*$")
]


class Strict(BaseModel):
    """Frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class CurrentRating(Strict):
    """Amps per phase of a breaker, busway or PDU."""

    current: CurrentA
    voltage_ll: VoltageV | None = None
    voltage_ln: VoltageV | None = None
    phases: Literal[1, 3] = 3


def _rating_branch(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "several"
    return "amps" if isinstance(value, dict) else "text"


#: "450 kW" or "500 kVA": text, kept with its unit; resolved by facility.topology.
RatingText = Annotated[str, BeforeValidator(rating_text)]
OneRating = Annotated[
    Annotated[RatingText, Tag("text")] | Annotated[CurrentRating, Tag("amps")],
    Discriminator(_rating_branch),
]
Rating = Annotated[
    Annotated[RatingText, Tag("text")]
    | Annotated[CurrentRating, Tag("amps")]
    | Annotated[tuple[OneRating, ...], Tag("several")],
    Discriminator(_rating_branch),
]


#: "40 %" of an element's limit, or "200 kW" of it; resolved by facility.topology.
ShareText = Annotated[str, BeforeValidator(share_text)]


class Transfer(Strict):
    """A switch: everything from `normal` while it is alive, else from `alternate`."""

    normal: Name
    alternate: Name


class Element(Strict):
    """One piece of the power plant."""

    kind: Literal[
        "source",
        "transformer",
        "ups",
        "switchboard",
        "pdu",
        "busway",
        "branch",
        "switch",
        "rack_pdu",
        "shelf",
    ]
    fed_by: tuple[Name, ...] = ()
    rating: Rating = ()
    continuous: Share | None = None
    power_factor: float = Field(default=0.95, gt=0.0, le=1.0)
    autonomy: DurationS | None = None
    overload: tuple[tuple[Share, DurationS], ...] = ()
    curve: Literal["steps", "inverse"] = "steps"
    hot: TemperatureC | None = None
    transfer: Transfer | None = None
    modules: int | None = Field(default=None, ge=1)
    needs: int | None = Field(default=None, ge=1)
    module_rating: PowerW | None = None
    share: ShareText | None = None  # of its limit that is this hall's, where other halls use it


class Group(Strict):
    """Parallel members of which `needs` must live; default all."""

    members: tuple[Name, ...] = Field(min_length=1)
    needs: int | None = Field(default=None, ge=1)


class LoadBase(Strict):
    """What hangs on feeds: a rack or anything else that draws power."""

    feeds: Mapping[Name, Name] = Field(min_length=1)
    needs: int = Field(default=1, ge=1)
    split: Mapping[Name, float] | None = None
    phases: Mapping[Name, Mapping[Literal["L1", "L2", "L3"], float]] | None = None
    psu: Literal["balanced", "hot_spare"] = "balanced"
    rating: PowerW


class Space(Strict):
    """What a rack has besides power; what is not stated is unknown, not free."""

    units: int | None = Field(default=None, ge=1, le=100)
    units_used: int | None = Field(default=None, ge=0, le=100)
    weight_limit: MassKg | None = None
    weight: MassKg | None = None
    ports: int | None = Field(default=None, ge=0, le=1000)  # liquid: supply and return pairs
    ports_used: int | None = Field(default=None, ge=0, le=1000)


class Rack(LoadBase):
    """A rack; `overhead` is what its caps do not touch (switches, fans)."""

    overhead: PowerW = 0.0
    space: Space | None = None


class Row(Strict):
    """Racks that stand together; `positions` is how many could."""

    racks: tuple[Name, ...] = Field(min_length=1)
    positions: int | None = Field(default=None, ge=1, le=10_000)


class OtherLoad(LoadBase):
    """CDU, pump, chiller, fan: anything that draws power and is not a rack."""


class Power(Strict):
    """Topology and the accuracies used with it."""

    elements: Mapping[Name, Element]
    groups: Mapping[Name, Group] = Field(default_factory=dict)
    maintenance: tuple[OutOfService, ...] = ()
    racks: Mapping[Name, Rack]
    loads: Mapping[Name, OtherLoad] = Field(default_factory=dict)
    rows: Mapping[Name, Row] = Field(default_factory=dict)
    meter_accuracy: Share = 0.02
    board_accuracy: Share = 0.05
    psu_efficiency: Share = 0.96
    resecure: Annotated[str | float, BeforeValidator(resecure_of)] = 900.0
    mode: Literal["preventive", "corrective"] = "preventive"
    shed: Annotated[DurationS, Field(ge=5.0)] = 5.0  # least T_shed; longer: longer leases, less
