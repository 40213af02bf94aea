"""A capture in the place of a device."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.capture.file import Capture
from drivers.profile.binding import At, Places
from drivers.profile.codec import Answer, Raw
from drivers.transport import FOREVER, WriteReply


class Replay:
    """A transport that answers from a capture."""

    endpoint, host, requests = "capture", "", 0

    def __init__(self, capture: Capture) -> None:
        """Take what was recorded."""
        self._capture = capture

    async def fetch(self, places: Places) -> Sequence[Answer]:
        """What was recorded at each place."""
        return self._capture.answers(places)

    async def put(self, place: At, raw: Raw, within_s: float = FOREVER) -> WriteReply:
        """Refuse: what was recorded does not change."""
        return WriteReply("rejected", "a recording")

    async def close(self) -> None:
        """Nothing to let go of."""
