"""What a hall can still take, and whether it is built as it should be."""

from controllers.capacity.conversion import conversion
from controllers.capacity.feeding import Feeding, wrongly_fed
from controllers.capacity.fit import Fit, Wish, rack_fits, server_fits
from controllers.capacity.report import report, report_text
from controllers.capacity.room import Room, room_for
from controllers.capacity.sizing import levels, lots, rows_of, supply_audit

__all__ = [
    "Feeding",
    "Fit",
    "Room",
    "Wish",
    "conversion",
    "levels",
    "lots",
    "rack_fits",
    "report",
    "report_text",
    "room_for",
    "rows_of",
    "server_fits",
    "supply_audit",
    "wrongly_fed",
]
