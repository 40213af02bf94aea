"""One imported thing, and how it is written as one line of a facility file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]

#: Sections in the order in which a facility file has them.
SECTIONS: Final = (
    ("power", "elements"),
    ("power", "groups"),
    ("power", "racks"),
    ("power", "loads"),
    ("node_types",),
    ("nodes",),
    ("devices",),
)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
_QUANTITY: Final = re.compile(r"[0-9]+(\.[0-9]+)? (%|[A-Za-z][A-Za-z/]*)")
_UNSEEN: Final = re.compile("[\x7f-\xa0\u2028\u2029\ufeff]")
_NO_WORDS: Final = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")
)


@dataclass(frozen=True)
class Entry:
    """One key of a section.

    Attributes:
        section: where it belongs, e.g. `("power", "racks")`.
        name: its key in that section.
        body: its value.
        identity: what the source calls it for good, e.g. `power-feed 12`; a renamed thing keeps it.
        file, line: where it was read, for faults found later; line 0 where there is none.
    """

    section: tuple[str, ...]
    name: str
    body: Mapping[str, Value]
    identity: str
    file: str
    line: int = 0


def written(value: Value) -> str:
    """A value in YAML's flow style, quoted wherever a reader could take it for something else."""
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) is not None and value.lower() not in _NO_WORDS
        return value if plain or _QUANTITY.fullmatch(value) else _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(written(each) for each in value) + "]"
    return json.dumps(value)


def _quoted(text: str) -> str:
    r"""In double quotes; JSON's \u pairs are no YAML, and YAML breaks lines where JSON does not."""
    raw = json.dumps(text, ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", raw)


def line_of(entry: Entry) -> str:
    """An entry as a line, without its indentation."""
    return f"{written(entry.name)}: {written(entry.body)}  # {entry.identity}"


def name_of(*parts: str) -> str:
    """A name as facility files allow it; what they do not allow becomes a hyphen.

    Raises:
        ValueError: nothing usable is left, or too much.
    """
    words = (re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-.") for part in parts)
    name = ".".join(words)
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{' '.join(parts)!r} makes no name of 1 to 64 letters, digits, _ . -")
    return name
