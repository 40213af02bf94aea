"""The hall: how it stands, its racks, loops and devices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.routes.schemas.shape import ModeName, Shape


class TrustOut(Shape):
    """How far the data can be trusted: points by grade, devices that do not answer."""

    points: int
    good: int
    suspect: int
    bad: int
    devices: int
    devices_bad: list[str]
    blind: list[str]
    text: str


class FacilityOut(Shape):
    """The hall at a glance."""

    name: str
    timezone: str
    config_sha256: str
    started: str
    now: str
    state: Literal["ok", "degraded", "bad", "unknown"]
    sentence: str
    trust: TrustOut
    control_enabled: bool
    policy: str
    modes: dict[str, ModeName]
    racks: list[str]
    nodes: int
    elements: list[str]
    loops: list[str]
    devices: int
    points: int


class RackOut(Shape):
    """One rack. Powers and caps in W, temperatures in degC."""

    rack: str
    power_w: float | None = Field(description="measured, W")
    why_no_power: str
    load_w: float | None = Field(description="as counted by the N+1 study, W")
    headroom_w: float | None = Field(description="what it alone may add in every case, W")
    rating_w: float
    cap_low_w: float | None = Field(description="least cap per GPU read back, W")
    cap_high_w: float | None = Field(description="greatest cap per GPU read back, W")
    because: str
    tokens_per_s: float | None
    tokens_per_joule: float | None = Field(description="tokens per second per watt of the rack")
    sustained: float | None = Field(description="5th percentile of its 5-min values, tok/J")
    inlet_c: float | None = Field(description="hottest inlet sensor, degC")
    down_in: list[str] = Field(description="cases in which the rack is dark")
    shared: list[str] = Field(
        description="elements whose loss darkens it although it has two feeds"
    )
    single_fed: bool | None
    mode: ModeName
    nodes: list[str]


class LoopOut(Shape):
    """One liquid loop; temperatures in degC, margins in K."""

    loop: str
    supply_c: float | None
    setpoint_c: float | None
    target_c: float | None
    lower_c: float | None
    upper_c: float | None
    dew_point_c: float | None
    to_dew_k: float | None
    to_throttle_k: float | None
    bound: str
    text: str
    mode: ModeName


class DeviceOut(Shape):
    """How one device answers.

    `doubts` are checks of physics that its readings fail. `odd` is what was odd in its answers
    since the start, and how often: late ones, ones to no request. None of it became a reading.
    """

    device: str
    profile: str
    endpoint: str
    state: str
    last_good: str | None
    failures: int
    overruns: int
    detail: str
    doubts: list[str]
    odd: dict[str, int]
