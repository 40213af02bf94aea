"""Captures: what a device answered, without what identifies it, and what that means.

`wattkeeper poll --record FILE` writes one; a file in tests/captures is a test by being there.
"""

from drivers.capture.file import (
    Capture,
    Page,
    place_name,
    read_capture,
    reading_name,
    shown_answer,
    shown_reading,
)
from drivers.capture.recording import Recorded, Told, recorded
from drivers.capture.replay import Replay

__all__ = [
    "Capture",
    "Page",
    "Recorded",
    "Replay",
    "Told",
    "place_name",
    "read_capture",
    "reading_name",
    "recorded",
    "shown_answer",
    "shown_reading",
]
