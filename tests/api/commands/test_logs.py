"""A log that cannot be written is lost, and nothing else is."""

from __future__ import annotations

import os
from io import TextIOWrapper

from api.commands.logs import SturdyStream


def test_a_reader_of_the_log_that_goes_away_ends_nobody() -> None:
    reading, writing = os.pipe()
    with TextIOWrapper(os.fdopen(writing, "wb", buffering=0), write_through=True) as stream:
        sturdy = SturdyStream(stream)
        assert sturdy.write("read\n") == 5
        assert os.read(reading, 10) == b"read\n"
        os.close(reading)
        assert sturdy.write("lost\n") == 5
        sturdy.flush()
    sturdy.write("closed\n")
    sturdy.flush()


def test_a_full_disk_under_the_log_ends_nobody() -> None:
    raw = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)
    sturdy = SturdyStream(TextIOWrapper(raw, write_through=True))
    sturdy.write("lost\n")
    sturdy.flush()
    raw.close()
