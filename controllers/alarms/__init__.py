"""Conditions become alarms: delays, one page per cause, consequences folded under it."""

from controllers.alarms.doubts import doubt_conditions
from controllers.alarms.hands import Hands, hands_of
from controllers.alarms.machine import AlarmMemory, AlarmState, step
from controllers.alarms.reach import device_conditions
from controllers.alarms.watch import (
    absence_conditions,
    power_conditions,
    room_conditions,
)

__all__ = [
    "AlarmMemory",
    "AlarmState",
    "Hands",
    "absence_conditions",
    "device_conditions",
    "doubt_conditions",
    "hands_of",
    "power_conditions",
    "room_conditions",
    "step",
]
