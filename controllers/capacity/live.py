"""Capacity questions about the hall as it runs: caps as they are, and at their floors."""

from __future__ import annotations

from typing import Any

from controllers.capacity.conversion import conversion
from controllers.capacity.fit import Fit, Wish, rack_fits, server_fits
from controllers.capacity.floors import floors_w
from controllers.capacity.report import LOT, MARGIN, report
from controllers.capacity.sizing import rows_of
from controllers.maintenance.now import Now
from facility import config
from facility.snapshot import Snapshot


def live_report(
    now: Now,
    snapshot: Snapshot,
    *,
    rack_w: float | None = None,
    lot: int = LOT,
    margin: float = MARGIN,
) -> dict[str, Any]:
    """The report of the hall as it runs; see `report`."""
    return report(
        now.site.facility,
        now.topology,
        now.loads.load_w,
        split=now.loads.split,
        conversion=conversion(now.site, snapshot),
        rack_w=rack_w,
        lot=lot,
        margin=margin,
    )


def live_server(now: Now, rack: str, wish: Wish) -> Fit:
    """Can this rack take one more server now?"""
    return server_fits(
        now.topology,
        now.site.facility.cooling.loops,
        rack,
        wish,
        now.loads.load_w,
        split=now.loads.split,
        floors_w=floors_w(now.topology, now.site.facility.nodes, now.loads.load_w),
    )


def live_rack(now: Now, row: str, model: str, positions: int | None, wish: Wish) -> Fit:
    """Can this row take one more rack now?"""
    return rack_fits(
        now.topology,
        now.site.facility.cooling.loops,
        row,
        model,
        positions,
        wish,
        now.loads.load_w,
        split=now.loads.split,
        floors_w=floors_w(now.topology, now.site.facility.nodes, now.loads.load_w),
    )


def row_named(power: config.Power, row: str) -> tuple[str, int | None] | None:
    """A rack of a row to take feeds from, and positions left; None when there is no such row.

    A row is one of the file, or an element that racks hang on directly.
    """
    if row in power.rows:
        return rows_of(power)[row]
    racks = [name for name, rack in power.racks.items() if row in rack.feeds.values()]
    return (racks[-1], None) if racks else None


def stands_in(power: config.Power, row: str, rack: str) -> bool:
    """Whether a rack is of a row; the feeds of another row's rack would tell nothing of this."""
    if row in power.rows:
        return rack in power.rows[row].racks
    return row in power.racks[rack].feeds.values()
