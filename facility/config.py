"""The shape of facility.yaml after loading: frozen, in canonical units, nothing optional left open.

`facility.loading` reads text into these; `facility.checking` says whether they make sense
together. Field names are the file's keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from facility.power_config import (
    CurrentRating,
    Element,
    Group,
    LoadBase,
    Name,
    OtherLoad,
    OutOfService,
    Power,
    Rack,
    Rating,
    Row,
    Space,
    Strict,
    Transfer,
)
from facility.quantities import (
    DifferenceK,
    DiskBytes,
    DurationS,
    FlowLpm,
    HoldS,
    LeaseS,
    PeriodS,
    PerKelvin,
    PowerW,
    RampWMin,
    RateKMin,
    ResistanceKW,
    RetentionS,
    Share,
    TemperatureC,
    TokenRate,
)

__all__ = [
    "CurrentRating",
    "Element",
    "Group",
    "LoadBase",
    "Name",
    "OtherLoad",
    "OutOfService",
    "Power",
    "Rack",
    "Rating",
    "Row",
    "Space",
    "Strict",
    "Transfer",
]


class Site(Strict):
    """Who and where; what the site allows."""

    name: str
    timezone: str
    ramp: RampWMin = 1e6
    design_dew_point: TemperatureC = 21.0


class Curve(Strict):
    """Tokens of one GPU against its cap: x = (C - c0)/k, T = tm·x/(1+x^n)^(1/n)."""

    tm: TokenRate
    c0: PowerW
    k: PowerW
    n: float = Field(ge=1.0, le=50.0)

    def cap_for(self, tokens_per_s: float) -> float:
        """The least cap that gives `tokens_per_s` of one GPU, W; inf where none does."""
        share = tokens_per_s / self.tm if self.tm > 0.0 else math.inf
        if share >= 1.0:
            return math.inf
        return float(self.c0 + self.k * share / (1.0 - share**self.n) ** (1.0 / self.n))


class NodeType(Strict):
    """What nodes share; every key may be overridden by the node itself."""

    gpus: int = Field(ge=1, le=16)
    gpu: Name
    min_cap: PowerW
    max_cap: PowerW
    floor: PowerW | None = None
    floor_tokens: TokenRate | None = None  # of the node: its floor is no lower than what gives it
    fallback: PowerW | None = None
    overhead: PowerW = 0.0
    priority: Literal["low", "normal", "high"] = "normal"
    curve: Curve | None = None
    worth: float | None = Field(default=None, gt=0.0, le=1e6)
    demand: TokenRate | None = None
    group: Name | None = None


class Node(NodeType):
    """One GPU server, node type already merged in, ranges already expanded.

    `floor` defaults to min_cap and `fallback` to the floor; both are always set after loading.
    """

    rack: Name


class Loop(Strict):
    """One liquid loop: its CDUs, whom it cools, and the limits of its supply temperature."""

    cdus: Mapping[Name, Name]  # CDU device -> the load in `power.loads` that feeds it
    racks: Mapping[Name, Share]  # share of each rack's heat that reaches the liquid
    sensors: tuple[Name, ...] = ()  # inlet sensor devices that measure dew point
    supply_min: TemperatureC = 18.0
    supply_max: TemperatureC = 45.0
    return_max: TemperatureC = 60.0
    default_setpoint: TemperatureC = 30.0
    design_flow: FlowLpm
    flow_one_pump_lost: Share = 0.85
    flow_one_cdu_lost: Share = 0.5
    heat_capacity: PowerW
    supply_rise_on_cdu_loss: DifferenceK = 1.0
    gpu_resistance: ResistanceKW = 0.036  # of one GPU at design flow
    gpu_flow_share: float = Field(default=0.45, ge=0.0, le=1.0)  # part of R that flow moves
    gpu_flow_exponent: float = Field(default=0.6, gt=0.0, le=1.0)
    leakage_per_k: PerKelvin = 0.003  # dlnP/dT of a GPU
    dew_point_override: bool = False  # the CDU guards against condensation by itself


class Cooling(Strict):
    """Liquid loops."""

    loops: Mapping[Name, Loop] = Field(default_factory=dict)


class Measures(Strict):
    """What a device's readings are about; exactly one of element, rack, load, loop, node.

    A device that measures a node is an inference engine there: its token counters are the node's.
    """

    element: Name | None = None
    rack: Name | None = None
    feed: Name | None = None
    load: Name | None = None
    loop: Name | None = None
    node: Name | None = None
    nothing: bool = False


class DeviceConfig(Strict):
    """One thing to talk to: profile + address + auth name; `broker` for those that publish."""

    profile: str
    address: str
    auth: Name | None = None
    broker: Name | None = None  # of `brokers`; the agents' own when left out
    measures: Measures = Field(default_factory=Measures)
    period: PeriodS | None = None
    parameters: Mapping[str, str] = Field(default_factory=dict)


class SecretSource(Strict):
    """Where a secret is found; never the secret."""

    env: str | None = None
    file: str | None = None
    credential: str | None = None


class AuthConfig(Strict):
    """How to log in: SNMP community, SNMPv3 user, or user and password.

    Attributes:
        kind: `community` is SNMP v2c, `community_v1` SNMP v1.
        secret: the community, the password, or the passphrase of the digest.
        digest: of SNMPv3; without one the user is believed by its name.
        cipher: of SNMPv3, with its passphrase in `privacy_secret`.
        context: SNMPv3 context name; most agents have none.
    """

    kind: Literal["community", "community_v1", "snmpv3", "password"] = "community"
    user: str | None = None
    secret: SecretSource = Field(default_factory=SecretSource)
    digest: Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512"] | None = None
    cipher: Literal["des", "aes128", "aes192", "aes256", "aes192_cisco", "aes256_cisco"] | None = (
        None
    )
    privacy_secret: SecretSource | None = None
    context: str = ""

    @model_validator(mode="after")
    def _user_of_snmpv3(self) -> AuthConfig:
        if self.kind != "snmpv3":
            given = self.digest or self.cipher or self.privacy_secret or self.context
            if given:
                raise ValueError("digest, cipher, privacy_secret and context need kind: snmpv3")
        elif not self.user:
            raise ValueError("kind: snmpv3 needs a user")
        elif self.digest is None and (self.cipher or self.has_secret):
            raise ValueError("a cipher or a secret needs a digest (SNMPv3 level authNoPriv)")
        elif (self.cipher is None) != (self.privacy_secret is None):
            raise ValueError("cipher and privacy_secret need each other (SNMPv3 level authPriv)")
        return self

    @property
    def has_secret(self) -> bool:
        """Whether it says where a secret is."""
        return self.secret != SecretSource()

    @property
    def needs_secret(self) -> bool:
        """Whether there has to be one: everywhere but for an SNMPv3 user without a digest."""
        return self.kind != "snmpv3" or self.digest is not None


class AllowWrites(Strict):
    """Who let Wattkeeper write to which points; `*` stands for any one part."""

    points: str
    by: str


class Control(Strict):
    """The guard's standing orders. Without `enabled: true` nothing is ever written."""

    enabled: bool = False
    allow: tuple[AllowWrites, ...] = ()
    mode: Literal["off", "observe", "auto"] = "observe"
    period: PeriodS = 1.0
    drills: Literal["refused", "allowed"] = "refused"  # real sheds; a simulation always may
    power_off: tuple[Name, ...] = ()  # nodes that may be switched off before a trip, in order


class AllocationSettings(Strict):
    """Controller `allocation`."""

    policy: Literal["efficiency", "throughput"] = "efficiency"
    period: PeriodS = 10.0
    min_move: Share = 0.01


class CoolingSettings(Strict):
    """Controller `cooling`: dwell, slew and guard bands of control law 4."""

    period: PeriodS = 300.0
    margin: DifferenceK = 7.0
    dwell: DurationS = 600.0
    raise_rate: RateKMin = 0.25
    lower_rate: RateKMin = 2.0
    protection_rate: RateKMin = 2.0
    max_raise_per_dwell: DifferenceK = 1.0
    dead_band: DifferenceK = 0.5
    writes_per_hour: int = Field(default=12, ge=1)
    dew_margin: DifferenceK = 2.0
    sensor_uncertainty: DifferenceK = 1.0
    undershoot: DifferenceK = 1.5
    ambient_approach: DifferenceK = 14.5
    ambient: str | None = None  # point of the outdoor temperature, device:part:kind


class Controllers(Strict):
    """Settings of each controller."""

    allocation: AllocationSettings = Field(default_factory=AllocationSettings)
    cooling: CoolingSettings = Field(default_factory=CoolingSettings)


class Webhook(Strict):
    """Where alarms go; signed with the secret (standard-webhooks)."""

    url: str
    secret: SecretSource
    pages_only: bool = False


class Alerts(Strict):
    """Alarm limits that a site may set, and where alarms go."""

    webhooks: Mapping[Name, Webhook] = Field(default_factory=dict)
    on_delay: DurationS = 3.0
    off_delay: DurationS = 10.0
    inlet_warning: TemperatureC = 32.0
    inlet_clear: TemperatureC = 30.0


class BrokerTls(Strict):
    """PEM files of an `mqtts` broker: a private authority, and a certificate of our own."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class Broker(Strict):
    """An MQTT broker other than the agents', for devices that name it.

    `client_id` where it knows us by one; `integration` where a BMS on the NVIDIA DSX Exchange does.
    """

    url: str
    auth: Name | None = None
    tls: BrokerTls | None = None
    client_id: Name | None = None
    integration: Name | None = None


class Agents(Strict):
    """How nodes are reached, and devices that publish and name no other broker."""

    broker: str = "mqtt://127.0.0.1:1883"
    auth: Name | None = None
    tls: BrokerTls | None = None
    client_id: Name | None = None
    topic_prefix: str = "wattkeeper"
    lease: LeaseS = 15.0
    hold: HoldS = 600.0


LabelName = Annotated[
    str, Field(max_length=64, pattern=r"^(?:[a-zA-Z]|_[a-zA-Z0-9])[a-zA-Z0-9_]*$")
]


class RemoteWrite(Strict):
    """A receiver of samples beside the store: Prometheus remote-write 1.0.

    `auth` with a user is Basic, without one Bearer; `tenant` is Mimir's X-Scope-OrgID; `spool`
    bounds what waits on the disk, in the state folder, while the receiver is away.
    """

    url: str
    auth: Name | None = None
    labels: Mapping[LabelName, str] = Field(default_factory=dict)
    tenant: str | None = None
    spool: DiskBytes = 1e9


class Keep(Strict):
    """How long a class of points is kept where that differs from the store's own times."""

    raw: RetentionS | None = None
    rollups: RetentionS | None = None


#: What a device's points are for: `gpu` are nodes, `power` PDUs, UPSs and meters, `cooling` CDUs,
#: `environment` sensors, `other` the rest.
PointClass = Literal["gpu", "power", "cooling", "environment", "other"]


class Store(Strict):
    """SQLAlchemy URL; no password in it (use auth)."""

    url: str = "sqlite:///wattkeeper.db"
    auth: Name | None = None
    keep_raw: RetentionS = 30 * 86400.0
    keep_rollups: RetentionS = 5 * 365.25 * 86400.0
    retention: Mapping[PointClass, Keep] = Field(default_factory=dict)
    remote_write: RemoteWrite | None = None


class Traps(Strict):
    """Where traps and informs of devices are heard: they make us look sooner, nothing more.

    Attributes:
        listen: `address:port`, UDP; 162 is the port that devices send to unless told otherwise.
        auth: communities and SNMPv3 users that may notify us.
    """

    listen: str
    auth: tuple[Name, ...] = Field(min_length=1)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port.

        Raises:
            ValueError: `listen` is not address:port.
        """
        host, _, port = self.listen.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{self.listen!r} is not address:port, such as 0.0.0.0:162")
        return host, int(port)


class Statements(Strict):
    """Signed answers to people's questions; without `key` the site makes one of its own."""

    key: SecretSource | None = None  # base64 of the 32 bytes of an Ed25519 private key


class Host(Strict):
    """Where this controller itself gets its power."""

    fed_by: tuple[Name, ...] = ()


class Facility(Strict):
    """A whole facility file."""

    facility: Literal[1]
    site: Site
    power: Power
    nodes: Mapping[Name, Node] = Field(default_factory=dict)
    cooling: Cooling = Field(default_factory=Cooling)
    devices: Mapping[Name, DeviceConfig] = Field(default_factory=dict)
    auth: Mapping[Name, AuthConfig] = Field(default_factory=dict)
    agents: Agents = Field(default_factory=Agents)
    brokers: Mapping[Name, Broker] = Field(default_factory=dict)
    control: Control = Field(default_factory=Control)
    controllers: Controllers = Field(default_factory=Controllers)
    alerts: Alerts = Field(default_factory=Alerts)
    store: Store = Field(default_factory=Store)
    host: Host = Field(default_factory=Host)
    statements: Statements = Field(default_factory=Statements)
    traps: Traps | None = None
