"""The protocol data units of SNMP (RFC 3416 section 3): requests written, answers taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from drivers.snmp import ber

GET: Final = 0xA0
GET_NEXT: Final = 0xA1
RESPONSE: Final = 0xA2
SET: Final = 0xA3
GET_BULK: Final = 0xA5
REPORT: Final = 0xA8

TOO_BIG: Final = 1
NO_SUCH_NAME: Final = 2
#: RFC 3416 section 3; what an agent says of a request that it did not carry out
ERRORS: Final[Mapping[int, str]] = {
    1: "tooBig",
    2: "noSuchName",
    3: "badValue",
    4: "readOnly",
    5: "genErr",
    6: "noAccess",
    7: "wrongType",
    8: "wrongLength",
    9: "wrongEncoding",
    10: "wrongValue",
    11: "noCreation",
    12: "inconsistentValue",
    13: "resourceUnavailable",
    14: "commitFailed",
    15: "undoFailed",
    16: "authorizationError",
    17: "notWritable",
    18: "inconsistentName",
}
#: octets of every request id: of one length, so that only it changes in a request built before
ID_OCTETS: Final = 4
#: ids go round below the sign bit, and never need fewer octets
LEAST_ID: Final = 0x0100_0000
MOST_ID: Final = 0x7FFF_FFFF


class Head(NamedTuple):
    """An answer without its variables.

    Attributes:
        kind: RESPONSE or REPORT.
        status, blamed: error status, and the variable it is about, counted from 1; 0 when none.
        start, stop: where in the datagram the list of variables lies.
    """

    kind: int
    id: int
    status: int
    blamed: int
    start: int
    stop: int


def split(data: bytes, at: int, end: int) -> Head:
    """Take an answer apart that fills the bytes from `at` to `end`.

    Raises:
        ber.BerError: it is none, or something follows after it.
    """
    kind, here, stop = ber.element(data, at, end)
    if kind not in (RESPONSE, REPORT) or stop != end:
        raise ber.BerError("no answer")
    request_id, here = ber.integer(data, here, stop)
    status, here = ber.integer(data, here, stop)
    index, here = ber.integer(data, here, stop)
    start, after = ber.expect(data, here, stop, ber.SEQUENCE)
    if after != stop:
        raise ber.BerError("more than a list of variables")
    return Head(kind, request_id, status, index, start, stop)


def written(kind: int, request_id: int, variables: bytes, first: int = 0, second: int = 0) -> bytes:
    """A request.

    Args:
        kind: GET, GET_NEXT, GET_BULK or SET.
        request_id: from LEAST_ID to MOST_ID.
        variables: the whole list of variables, as an element.
        first: non-repeaters of a GETBULK, else 0.
        second: max-repetitions of a GETBULK, else 0.
    """
    return ber.encode(
        kind,
        ber.encode_integer(request_id)
        + ber.encode_integer(first)
        + ber.encode_integer(second)
        + variables,
    )
