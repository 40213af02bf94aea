"""Caps arbitrated and guarded as columns come out as they do one point at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controllers.arbiter import arbitrate_all
from controllers.base import told
from controllers.cycle.rooms import CapRooms, Setpoints
from controllers.cycle.wanted import Reasons, Used, Wanted
from controllers.gpu_caps import CapForce
from controllers.guard import Draft, Drafts, StandingOrders, WriteLimits, check
from facility.commands import UNBOUNDED, Bounds, Mode, Override, Setpoint, setpoint_row
from facility.config import AllowWrites
from facility.points import PointId
from tests.controllers.rig import Hall
from tests.controllers.toy import site_of, small_hall

SITE = site_of(small_hall())
WATTS = st.sampled_from([150.0, 200.0, 249.5, 250.0, 300.25, 450.0, 699.0, 700.0, 720.0])
NODE = st.tuples(WATTS, WATTS, WATTS, st.booleans(), st.booleans(), st.booleans())


@given(
    st.lists(NODE, min_size=4, max_size=4),
    st.dictionaries(st.sampled_from(["hall", "rack:r01"]), st.sampled_from(list(Mode))),
    st.sampled_from(["plan", "hold", "water_fill"]),
)
def test_set_points_of_caps_are_what_arbitration_says_of_each(
    nodes: list[tuple[float, float, float, bool, bool, bool]], modes: dict[str, Mode], used: Used
) -> None:
    in_force, desired, high = (np.array([n[k] for n in nodes]) for k in range(3))
    protect = np.array([n[3] for n in nodes])
    value = np.where([n[4] for n in nodes], np.minimum(desired, high), np.nan)
    leases = {
        name: Override(f"o{i}", SITE.cap_points[i], 300.0, "eva", "test", 0, 1)
        for i, name in enumerate(SITE.nodes)
        if nodes[i][5]
    }
    because = {name: f"reason {i}" for i, name in enumerate(SITE.nodes)}
    hit, own = np.arange(4) == 1, {2: "a leak"}
    reasons = Reasons(SITE.nodes, used, because, hit, high, "", own)
    assert reasons.of(range(4)) == [reasons[i] for i in range(4)]
    wanted = cast(
        "Wanted",
        SimpleNamespace(desired_w=desired, protect=protect, high_w=high, reasons=reasons),
    )
    inputs = replace(Hall().inputs(), modes=modes)
    force = cast("CapForce", SimpleNamespace(in_force_w=in_force))
    rooms = CapRooms.of(SITE, inputs, wanted, force, value, leases)
    proposals: list[Any] = []
    for i, point in enumerate(SITE.cap_points):
        if SITE.mode_of(point, modes) is Mode.OFF:
            continue
        proposals += rooms.proposals(i)
        lease, moving = leases.get(SITE.nodes[i]), not math.isnan(value[i])
        if lease is not None and moving and abs(value[i] - desired[i]) < 1.0:
            proposals.append(told(point, float(value[i]), "eva: test", lease.id))
    present = dict(zip(SITE.cap_points, in_force.tolist(), strict=True))
    found = arbitrate_all(proposals, present)
    assert Setpoints(rooms, ()) == found
    loop = [Setpoint(PointId("a-cdu", "total", "supply_temperature"), 30.0, UNBOUNDED, "loop")]
    both = sorted([*found, *loop], key=lambda setpoint: setpoint.point)
    assert Setpoints(rooms, loop).rows() == [setpoint_row(setpoint) for setpoint in both]


VALUES = st.sampled_from([math.nan, math.inf, 100.0, 200.0, 450.0, 700.0, 900.0])
ROW = st.tuples(
    VALUES, VALUES, st.booleans(), st.booleans(), st.sampled_from(list(Mode)), st.booleans()
)


@given(
    st.lists(ROW, max_size=8),
    st.booleans(),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_the_guard_lets_through_of_columns_what_it_lets_through_of_each_draft(
    rows: list[tuple[float, float, bool, bool, Mode, bool]],
    enabled: bool,
    epoch: int | None,
    last_epoch: int | None,
    journal_ok: bool,
) -> None:
    points = [PointId(f"n{i}", "total", "power_cap") for i in range(len(rows))]
    modes = {p: row[4] for p, row in zip(points, rows, strict=True)}
    allow = tuple(
        AllowWrites(points=str(p), by="me") for p, row in zip(points, rows, strict=True) if row[5]
    )
    orders = StandingOrders(
        enabled,
        allow,
        lambda point: modes[point],
        {p: WriteLimits(Bounds(200.0, 700.0)) for p in points},
        epoch,
        last_epoch,
        journal_ok,
    )
    columns = Drafts(
        points,
        np.array([row[0] for row in rows], dtype=np.float64),
        np.array([row[1] for row in rows], dtype=np.float64),
        np.array([row[2] for row in rows], dtype=np.bool_),
        np.array([row[3] for row in rows], dtype=np.bool_),
        np.array([row[4].activity for row in rows], dtype=np.int64),
        np.array([row[5] for row in rows], dtype=np.bool_),
        np.full(len(rows), 200.0),
        np.full(len(rows), 700.0),
        lambda rows: [f"because {i}" for i in rows],
        "a meter",
    )
    drafts = [
        Draft(p, *row[:3], f"because {i}", row[3], "a meter")
        for i, (p, row) in enumerate(zip(points, rows, strict=True))
    ]
    each = check(drafts, orders, sequence=7, now_ms=5)
    together = check([], orders, sequence=7, now_ms=5, columns=columns)
    assert repr(together) == repr(each)
