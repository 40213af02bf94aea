"""What is asked for, built once: the variables of a request, and how their answers are read back.

An agent that is asked the same thing every second answers in the same form every second. The
names in it are compared, all of them, by one compiled pattern; what lies between the names are
the values. Only an answer of another form is taken apart element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from drivers.profile.codec import Answer
from drivers.snmp import ber
from drivers.snmp.values import recall

Oid = ber.Oid

#: elements up to this many octets of contents are read by the pattern whatever their length
_SHORT: Final = 9
#: the types of SNMP: INTEGER, OCTET STRING, NULL, OID, the application types, the exceptions
_TAGS: Final = rb"[\x02\x04-\x06\x40-\x44\x46\x47\x80-\x82]"
#: how often a pattern may be made anew for lengths that it did not know
_PATTERNS: Final = 8
#: answers to a question before one is made at all: it takes milliseconds, and many a question is
#: asked once only, to find out what an agent cannot take
_PATTERN_AFTER: Final = 3
_NULL: Final = b"\x05\x00"
#: octets that a value adds to its name in an answer, and what a datagram holds without being cut
VALUE_OCTETS: Final = 9
ANSWER_OCTETS: Final = 1300


class Reply(NamedTuple):
    """What came back.

    Attributes:
        answers: to a GET, one for each variable asked for, in that order; else in the agent's.
        names: of the answers; only where they are not the ones that were asked for.
        came: variables that were in the answer; 0 where they are few, and others than asked for.
        status, blamed: error status (RFC 3416) and the variable it is about, counted from 1.
    """

    answers: Sequence[Answer]
    names: Sequence[Oid] = ()
    came: int = 0
    status: int = 0
    blamed: int = 0


class Question:
    """Variables that are asked for together; the same object for the same variables."""

    def __init__(self, oids: tuple[Oid, ...]) -> None:
        self.oids = oids
        self._names = tuple(ber.encode_oid(oid) for oid in oids)
        self.variables = listed(self._names)
        self._lengths: list[set[int]] = [set() for _ in oids]
        self._pattern: re.Pattern[bytes] | None = None
        self._made = 0
        self._answered = 0

    def read(self, data: bytes, start: int, stop: int) -> tuple[Sequence[Answer], int]:
        """Answers in the order of the question, and how many variables came.

        Args:
            data: the datagram.
            start: of the contents of its list of variables.
            stop: their end.

        Raises:
            ber.BerError: no list of variables.
        """
        if self._pattern is not None:
            match = self._pattern.fullmatch(data, start, stop)
            if match is not None:
                return tuple(map(recall, match.groups())), len(self.oids)
        pairs = variables_of(data, start, stop)
        in_form = len(pairs) == len(self._names) and all(
            name == asked for (name, _), asked in zip(pairs, self._names, strict=True)
        )
        if in_form:
            self._learn(pairs)
            return tuple(recall(value) for _, value in pairs), len(pairs)
        told: dict[bytes, bytes] = {}
        for name, value in pairs:
            # One name with two values: neither is to be believed.
            told[name] = value if told.get(name, value) == value else _NULL
        answers = tuple(recall(told.get(name, _NULL)) for name in self._names)
        # Fewer than asked for, of other names, are no answer that was cut short.
        cut = len(pairs) < len(self._names) and all(
            name == asked for (name, _), asked in zip(pairs, self._names, strict=False)
        )
        return answers, len(pairs) if cut or len(pairs) >= len(self._names) else 0

    def _learn(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Make the pattern, with the lengths of the long values that came this time."""
        self._answered += 1
        if self._made >= _PATTERNS or self._answered < _PATTERN_AFTER:
            return
        fresh = self._pattern is None
        for (_, value), lengths in zip(pairs, self._lengths, strict=True):
            _, start, stop = ber.element(value, 0, len(value))
            if stop - start > _SHORT and stop - start not in lengths:
                lengths.add(stop - start)
                fresh = True
        if fresh:
            self._made += 1
            self._pattern = re.compile(
                b"".join(
                    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)" + re.escape(name) + _value(lengths)
                    for name, lengths in zip(self._names, self._lengths, strict=True)
                ),
                re.DOTALL,
            )


def _value(lengths: set[int]) -> bytes:
    """A pattern for one element: any short one, and long ones of known lengths."""
    forms = [_sized(length) for length in (*range(_SHORT + 1), *sorted(lengths))]
    return b"(" + _TAGS + b"(?:" + b"|".join(forms) + b"))"


def _sized(length: int) -> bytes:
    head = ber.encode(ber.OCTETS, bytes(length))[1 : -length or None]
    return re.escape(head) + b".{%d}" % length


def variables_of(data: bytes, start: int, stop: int) -> list[tuple[bytes, bytes]]:
    """Name and value, each as a whole element, of every variable in a list.

    Raises:
        ber.BerError: no list of variables.
    """
    pairs = []
    at = start
    while at < stop:
        first, after = ber.expect(data, at, stop, ber.SEQUENCE)
        _, value_at = ber.expect(data, first, after, ber.OID)
        _, _, value_stop = ber.element(data, value_at, after)
        if value_stop != after:
            raise ber.BerError("more than a name and a value")
        pairs.append((data[first:value_at], data[value_at:after]))
        at = after
    return pairs


def listed(names: Iterable[bytes]) -> bytes:
    """The list of variables of a request: names as elements, values empty."""
    return ber.encode(
        ber.SEQUENCE, b"".join(ber.encode(ber.SEQUENCE, name + _NULL) for name in names)
    )


@lru_cache(maxsize=4096)
def question(oids: tuple[Oid, ...]) -> Question:
    """The question for these variables: devices of one kind share it."""
    return Question(oids)


def grouped(oids: Sequence[Oid], most: int) -> tuple[Question, ...]:
    """Questions for variables in their order: at most `most` each, and answers of one frame."""
    groups: list[list[Oid]] = []
    room = 0
    for oid in oids:
        size = len(ber.encode_oid(oid)) + VALUE_OCTETS
        if not groups or len(groups[-1]) >= most or size > room:
            groups.append([])
            room = ANSWER_OCTETS
        groups[-1].append(oid)
        room -= size
    return tuple(question(tuple(group)) for group in groups)
