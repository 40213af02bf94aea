"""From a chunk's bytes to columns: only what is asked for."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from facility.points import FloatArray, IntArray
from facility.store.chunks import numbers
from facility.store.chunks.columns import Columns
from facility.store.chunks.encode import CRC, FIXED, FORM, INDEX_WIDTH
from facility.store.chunks.states import States
from facility.store.chunks.summary import Summary


class Head:
    """What a chunk's head says; each section is decoded when first asked for.

    Attributes:
        points, scans: the chunk's shape.

    Raises:
        ValueError: bytes that are no head, or of a form that this program does not know.
    """

    def __init__(self, data: bytes) -> None:
        try:
            form, self.points, self.scans, *lengths = FIXED.unpack_from(data)
            (crc,) = CRC.unpack_from(data, len(data) - CRC.size)
        except struct.error as error:
            raise ValueError(f"a damaged chunk head: {error}") from error
        if form != FORM:
            raise ValueError(f"a chunk of form {form}, of a newer Wattkeeper or damaged")
        bounds = np.cumsum([FIXED.size, *lengths]).tolist()
        k, at = self.points, bounds[-1]
        if len(data) != at + INDEX_WIDTH * k + CRC.size or crc != zlib.crc32(data[: -CRC.size]):
            raise ValueError(f"a damaged chunk head of {len(data)} bytes for {k} points")
        self._sections = [data[begin:end] for begin, end in itertools.pairwise(bounds)]
        self._forms = np.frombuffer(data, np.uint8, k, at)
        sizes = np.frombuffer(data, "<u4", k, at + k)
        self._crcs = np.frombuffer(data, "<u4", k, at + 5 * k)
        self._bounds = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))

    @cached_property
    def times_ms(self) -> IntArray:
        """int64[scans], rising."""
        return self._integers(0)

    @cached_property
    def received_ms(self) -> IntArray:
        """int64[scans]."""
        return self.times_ms + self._integers(1)

    @cached_property
    def summary(self) -> Summary:
        """Counts, sum, least, greatest, first and last of every point."""
        return Summary.unpack(self._sections[3], self.points)

    @cached_property
    def _states(self) -> States:
        return States(self._sections[2], self.points, self.scans)

    @property
    def body_bytes(self) -> int:
        """Length of the body that belongs to this head."""
        return int(self._bounds[-1])

    def place(self, point: int) -> tuple[int, int]:
        """Where in the body the column of a point (its position in the layout) begins and ends."""
        return int(self._bounds[point]), int(self._bounds[point + 1])

    def columns(self, body: bytes, points: Sequence[int] | None = None) -> Columns:
        """The samples of those points (positions in the layout), of all where None.

        Raises:
            ValueError: a damaged body, or one of another chunk.
        """
        if len(body) != self.body_bytes:
            raise ValueError(f"a chunk body of {len(body)} bytes where {self.body_bytes} are due")
        wanted = range(self.points) if points is None else points
        values = np.empty((len(wanted), self.scans))
        quality = np.empty((len(wanted), self.scans), dtype=np.uint8)
        for i, point in enumerate(wanted):
            quality[i], missing = self._states.of(point)
            begin, end = self.place(point)
            data = body[begin:end]
            if zlib.crc32(data) != self._crcs[point]:
                raise ValueError(f"a damaged chunk column of {len(data)} bytes")
            self._fill(values[i], int(self._forms[point]), data, missing)
        return Columns(self.times_ms, self.received_ms, values, quality)

    def _fill(
        self, row: FloatArray, form: int, data: bytes, missing: npt.NDArray[np.bool_] | None
    ) -> None:
        if missing is None:
            row[:] = numbers.unpack(form, data, self.scans)
        else:
            row[missing] = np.nan
            row[~missing] = numbers.unpack(form, data, self.scans - int(missing.sum()))

    def _integers(self, section: int) -> IntArray:
        found = numbers.from_pco(self._sections[section])
        if len(found) != self.scans:
            raise ValueError(f"{len(found)} times in a chunk of {self.scans} scans")
        return found.astype(np.int64)
