"""Rows of a table: how they are called, and which arcs stand for them in an SNMP index.

A row's *key* is what takes the place of the words in an index: one number per `row` (a tower and
its infeed are two), one text per `text`. Its *name* is what people and points call it: a number
where the key is one, else its pieces with `-` between them. Leading numbers of 1 are left out of
a name, so that outlet 5 of the only PDU is 5, and that of the second in the chain 2-5. A text that
is no text (a MAC address in six octets) is written 0x0024359b03f6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from drivers.profile.places import Index

RowName = int | str
Key = tuple[int | str, ...]

#: the words of an index that a row has a say in
WORDS: Final = frozenset({"row", "text"})
#: what the index of a table looks like whose rows are only counted (Modbus, MQTT, SNMP's `[row]`)
COUNTED: Final[Index] = ("row",)
#: the same where rows have names (a level of an MQTT topic)
NAMED: Final[Index] = ("text",)
#: no row's text is longer
LONGEST_TEXT: Final = 64


def words_of(index: Index) -> tuple[str, ...]:
    """The words of an index, in order."""
    return tuple(arc for arc in index if isinstance(arc, str))


def name_of(key: Key) -> RowName:
    """What a row is called."""
    if all(isinstance(piece, int) for piece in key):
        first = next((i for i, piece in enumerate(key) if piece != 1), len(key) - 1)
        shown = key[first:]
        return shown[0] if len(shown) == 1 else "-".join(map(str, shown))
    return "-".join(map(str, key))


def key_of(name: RowName, index: Index) -> Key:
    """The key that a name stands for, in a table with this index.

    Raises:
        ValueError: a name that no row of such a table can have.
    """
    words = words_of(index)
    if not words:
        return ()
    pieces = str(name).split("-", len(words) - 1)
    if "text" not in words:
        pieces = ["1"] * (len(words) - len(pieces)) + pieces
    if len(pieces) != len(words):
        raise ValueError(f"{name!r} is no row: {len(words)} pieces with - between them are due")
    key: list[int | str] = []
    for piece, word in zip(pieces, words, strict=True):
        if word == "text":
            if not 0 < len(piece) <= LONGEST_TEXT or not piece.isascii():
                raise ValueError(f"{name!r} is no row: {piece!r} is no text of the device")
            key.append(piece)
        elif re.fullmatch(r"\d{1,9}", piece):
            key.append(int(piece))
        else:
            raise ValueError(f"{name!r} is no row: {piece!r} is no number")
    return tuple(key)


def part_of(name: RowName) -> str:
    """The end of a point's part: the name in the few letters that a part may have."""
    return re.sub(r"[^a-z0-9-]", "-", str(name).lower())


def arcs(index: Index, key: Key) -> tuple[int, ...]:
    """An index with a row put into it; a text is its length and its octets (RFC 2578 7.7)."""
    pieces = iter(key)
    found: list[int] = []
    for arc in index:
        if isinstance(arc, int):
            found.append(arc)
            continue
        piece = next(pieces)
        if isinstance(piece, int):
            found.append(piece)
        else:
            coded = re.fullmatch(r"0x((?:[0-9a-f]{2})+)", piece)
            octets = bytes.fromhex(coded[1]) if coded else piece.encode("ascii")
            found += [len(octets), *octets]
    return tuple(found)


def key_in(suffix: Sequence[int], index: Index) -> Key | None:
    """The row in the arcs after a column; None when they have not the shape of the index."""
    key: list[int | str] = []
    rest = list(suffix)
    for arc in index:
        if not rest:
            return None
        here = rest.pop(0)
        if isinstance(arc, int):
            if here != arc:
                return None
        elif arc == "row":
            key.append(here)
        else:
            octets, rest = rest[:here], rest[here:]
            if not 0 < here <= LONGEST_TEXT or len(octets) < here:
                return None
            if max(octets) > 0xFF:
                return None
            plain = all(0x21 <= octet < 0x7F for octet in octets)
            key.append(bytes(octets).decode("ascii") if plain else f"0x{bytes(octets).hex()}")
    return None if rest else tuple(key)


def rows_told(text: str, index: Index, first: int, most: int) -> tuple[RowName, ...]:
    """Rows as a facility file names them: how many there are, or which (`1,3,5..8`, `2-1`).

    Raises:
        ValueError: neither, or more than `most`.
    """
    if text.isascii() and text.isdigit() and int(text) <= most:
        return tuple(range(first, first + int(text)))
    if "," not in text and ".." not in text and not _is_row(text, index):
        raise ValueError(f"{text!r} is not a number of rows from 0 to {most}")
    names: list[RowName] = []
    for item in filter(None, (piece.strip() for piece in text.split(","))):
        low, dots, high = item.partition("..")
        if dots and low.isdigit() and high.isdigit() and int(high) - int(low) < most:
            names += range(int(low), int(high) + 1)
        else:
            names.append(name_of(key_of(item, index)))
    if len(names) > most or len(set(names)) < len(names):
        raise ValueError(f"{text!r} names a row twice, or more than {most}")
    return tuple(names)


def _is_row(text: str, index: Index) -> bool:
    try:
        key_of(text, index)
    except ValueError:
        return False
    return "-" in text


def shape_of(indexes: Mapping[str, Index]) -> Index:
    """The one index whose words a table's places share.

    Raises:
        ValueError: two of them have other words.
    """
    first = COUNTED
    for name, index in indexes.items():
        if first is COUNTED:
            first = index
        elif words_of(index) != words_of(first):
            raise ValueError(f"{name}: index {list(index)} in a table of {list(first)}")
    return first
