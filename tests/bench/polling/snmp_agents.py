"""SNMP agents for the bench: one socket each, answers prebuilt, only request ids are patched.

Run as `python -m tests.bench.polling.snmp_agents FLEET`.
"""

from __future__ import annotations

import heapq
import select
import socket
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final

from drivers.profile.binding import BoundPoint, SnmpAt
from drivers.profile.codec import encode
from drivers.sim import ber
from drivers.sim.serve_snmp import MAX_VARIABLES, SYS_DESCR, SYS_OBJECT_ID, encoded
from tests.bench.polling.fleet import (
    VARIANTS,
    Fleet,
    binding_of,
    delay_s,
    host_of,
    profile_of,
    reading_of,
)
from tests.bench.polling.serving import fleet_asked, listening

#: more different requests than the clients of this bench have
MOST_KEPT: Final = 4096
DESCRIPTION: Final = b"APC Web/SNMP Management Card (PF:v6.4.0 MN:AP8959EU3 SN: BENCH)"
Values = dict[ber.Oid, ber.Value]


Pieces = tuple[bytes, bytes]


class Answers:
    """What every agent says: the same of all, because all have the same OIDs."""

    def __init__(self) -> None:
        points = binding_of("snmp", 0, 1.0).all()
        self._looks = [_values(points, variant) for variant in range(VARIANTS)]
        self._order = sorted(self._looks[0])
        self._kept: dict[bytes, list[Pieces]] = {}

    def to(self, request: bytes, turn: int) -> bytes | None:
        """The answer to a datagram at one of an agent's turns; None to one that is no request."""
        try:
            at = _request_id_at(request)
            end = at + 1 + request[at]
            number = request[at + 1 : end]
            key = request[: at + 1] + request[end:]
            kept = self._kept.get(key)
            if kept is None:
                asked = ber.parse(request)
                kept = [self._built(asked, number, values) for values in self._looks]
                if len(self._kept) < MOST_KEPT:
                    self._kept[key] = kept
        except (ber.BerError, ValueError, IndexError):
            return None
        before, after = kept[turn % VARIANTS]
        return before + number + after

    def _built(self, asked: ber.Request, number: bytes, values: Values) -> Pieces:
        """The bytes before and after the request id, which is sent back as it came."""
        listed = b"".join(
            ber.element(
                ber.SEQUENCE,
                ber.element(ber.OID, ber.of_oid(name)) + ber.element(value.tag, value.body),
            )
            for name, value in self._answer(asked, values)
        )
        none = ber.element(ber.INTEGER, ber.of_integer(0))
        tail = none + none + ber.element(ber.SEQUENCE, listed)
        head = ber.element(ber.INTEGER, ber.of_integer(ber.V2C))
        head += ber.element(ber.OCTETS, asked.community)
        pdu = ber.element(ber.RESPONSE, ber.element(ber.INTEGER, number) + tail)
        message = ber.element(ber.SEQUENCE, head + pdu)
        return message[: len(message) - len(tail) - len(number)], tail

    def _answer(self, asked: ber.Request, values: Values) -> list[tuple[ber.Oid, ber.Value]]:
        names = [name for name, _, _ in asked.variables]
        if asked.kind == ber.GET:
            missing = ber.Value(ber.NO_SUCH_INSTANCE)
            return [(name, values.get(name, missing)) for name in names]
        if asked.kind == ber.GET_NEXT:
            return [self._after(name, values) for name in names]
        if asked.kind != ber.GET_BULK:
            raise ber.BerError("only reads are served")
        found = [self._after(name, values) for name in names[: asked.first]]
        here = names[asked.first :]
        for _ in range(asked.second):
            row = [self._after(name, values) for name in here]
            here = [name for name, _ in row]
            found += row
            if not row or len(found) >= MAX_VARIABLES:
                break
        return found[:MAX_VARIABLES]

    def _after(self, name: ber.Oid, values: Values) -> tuple[ber.Oid, ber.Value]:
        at = bisect_right(self._order, name)
        if at == len(self._order):
            return name, ber.Value(ber.END_OF_MIB_VIEW)
        return self._order[at], values[self._order[at]]


def _values(points: Sequence[BoundPoint], variant: int) -> Values:
    values = {}
    for point in points:
        assert isinstance(point.at, SnmpAt)
        raw = encode(point, reading_of(point, variant))
        assert raw is not None
        values[point.at.oid] = encoded(point.at.where.syntax, raw)
    match = profile_of("snmp").match
    values[SYS_OBJECT_ID] = ber.Value(ber.OID, ber.of_oid(match.sys_object_ids[0]))
    values[SYS_DESCR] = ber.Value(ber.OCTETS, DESCRIPTION)
    return values


def _request_id_at(message: bytes) -> int:
    """Where the length octet of the request id stands.

    Raises:
        IndexError: there is none.
    """
    at = 2 + (message[1] & 0x7F if message[1] & 0x80 else 0)  # the outer sequence
    at += 2 + message[at + 1]  # version
    at += 2 + message[at + 1]  # community
    at += 2 + (message[at + 1] & 0x7F if message[at + 1] & 0x80 else 0)  # the PDU
    return at + 1


def bound(fleet: Fleet) -> dict[int, socket.socket]:
    """A socket for each device; the dead ones have theirs too, and say nothing."""
    found = {}
    for number in range(fleet.snmp):
        found[number] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found[number].bind((host_of("snmp", number), 0))
        found[number].setblocking(False)
    return found


def main() -> None:
    """Serve until the bench closes our standard input."""
    fleet = fleet_asked()
    sockets, answers = bound(fleet), Answers()
    poll = select.epoll()
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    numbers = {}
    for number, each in sockets.items():
        if fleet.state(number) != "dead":
            numbers[each.fileno()] = number
            poll.register(each.fileno(), select.EPOLLIN)
    listening({number: each.getsockname()[1] for number, each in sockets.items()})
    turns: Counter[int] = Counter()
    later: list[tuple[float, int, bytes, tuple[str, int]]] = []
    while True:
        wait_s = max(later[0][0] - time.monotonic(), 0.0) if later else -1
        for file, _ in poll.poll(wait_s):
            if file == sys.stdin.fileno():
                return
            number = numbers[file]
            request, client = sockets[number].recvfrom(65535)
            turns[number] += 1
            answer = answers.to(request, turns[number])
            if answer is None:
                continue
            if fleet.state(number) == "slow":
                due_s = time.monotonic() + delay_s(number)
                heapq.heappush(later, (due_s, number, answer, client))
            else:
                sockets[number].sendto(answer, client)
        while later and later[0][0] <= time.monotonic():
            _, number, answer, client = heapq.heappop(later)
            sockets[number].sendto(answer, client)


if __name__ == "__main__":
    main()
