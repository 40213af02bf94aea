"""Answers that units still owe on a line whose frames carry no number (RTU).

What was asked and not answered may be answered yet. An answer of the same unit, function and
length could be either, and so could any refusal of that function: whoever asks next has to ask
for another length first. Units answer in order, so an answer that can be to nothing else ends
the debt. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

#: what was not answered for so long never is, seconds
FORGOTTEN_AFTER_S: Final = 30.0
#: unanswered requests of one unit that are remembered
MOST: Final = 8


class _Debt(NamedTuple):
    function: int
    size: int
    at_s: float

    def fits(self, pdu: bytes) -> bool:
        """Whether a PDU may be the answer."""
        refused = pdu[0] == self.function | 0x80
        return refused or (pdu[0] == self.function and len(pdu) == self.size)


class Owed:
    """Who owes what."""

    def __init__(self) -> None:
        self._units: dict[int, deque[_Debt]] = {}

    def add(self, unit: int, function: int, size: int, at_s: float) -> None:
        """A request was not answered: its PDU had this function, its answer would have this size.

        Args:
            unit: of whom.
            function: of the request.
            size: bytes of its answer's PDU.
            at_s: when it was asked; monotonic.
        """
        self._units.setdefault(unit, deque(maxlen=MOST)).append(_Debt(function, size, at_s))

    def sizes(self, unit: int, function: int, now_s: float) -> frozenset[int]:
        """Lengths that answers to this function may have that were asked for before now."""
        debts = self._units.get(unit)
        if debts is None:
            return frozenset()
        while debts and now_s - debts[0].at_s > FORGOTTEN_AFTER_S:
            debts.popleft()
        if not debts:
            del self._units[unit]
        return frozenset(debt.size for debt in debts if debt.function == function)

    def came(self, unit: int, pdu: bytes) -> float | None:
        """Something came that nobody waits for: when it was asked, None if it never was.

        What was asked before it is not owed any more.
        """
        debts = self._units.get(unit, ())
        for place, debt in enumerate(debts):
            if debt.fits(pdu):
                for _ in range(place + 1):
                    self._units[unit].popleft()
                return debt.at_s
        return None

    def answered(self, unit: int, pdu: bytes, size: int, at_s: float) -> None:
        """A request got an answer, which may have been an earlier one's.

        Args:
            unit: who answered.
            pdu: the answer.
            size: bytes that were expected.
            at_s: when it was asked.
        """
        if unit not in self._units:
            return
        function = pdu[0] & 0x7F
        if pdu[0] & 0x80 or size in self.sizes(unit, function, at_s):
            if self.came(unit, pdu) is not None:
                self.add(unit, function, size, at_s)
        else:
            self._units.pop(unit, None)
