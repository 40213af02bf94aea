"""What a facility file says of one device beyond its profile: rows, and which of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivers.profile import Profile, Variables
from drivers.profile.rows import RowName, rows_told
from facility.kinds import Kind
from facility.units import UNITS


@dataclass(frozen=True, slots=True)
class Within:
    """Where variables are found by name: the table, and the first arcs of the device's own."""

    table: Variables
    device: tuple[int, ...] = ()


def within_of(profile: Profile, parameters: Mapping[str, str]) -> Within | None:
    """Where the profile's variables are found by name; None where it has none.

    Raises:
        ValueError: the parameter `device` is no number.
    """
    if profile.variables is None:
        return None
    text = parameters.get("device")
    if text is None:
        return Within(profile.variables)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"device: {text!r} is no number of a device behind the agent")
    return Within(profile.variables, (int(text),))


def rows_of(
    profile: Profile, parameters: Mapping[str, str], found: Mapping[str, Sequence[RowName]]
) -> dict[str, tuple[RowName, ...]]:
    """Rows of each table: as walked, else as the facility file says, else the default.

    Raises:
        ValueError: a parameter that the profile has no table for, or that names no rows.
    """
    taken = {*profile.tables, *(("device",) if profile.variables is not None else ())}
    taken |= profile.names
    unknown = set(parameters) - taken
    if unknown:
        known = ", ".join(sorted(taken)) or "none"
        raise ValueError(f"{profile.profile} has no parameter {min(unknown)!r} (known: {known})")
    rows: dict[str, tuple[RowName, ...]] = {}
    for name, table in profile.tables.items():
        text = parameters.get(name)
        if text is not None:
            try:
                told = rows_told(text, profile.shape(name), table.first, table.most)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif isinstance(table.rows, int):
            told = tuple(range(table.first, table.first + table.rows))
        else:
            told = table.rows
        rows[name] = tuple(found.get(name, told))[: table.most]
    return rows


def names_of(profile: Profile, parameters: Mapping[str, str]) -> dict[str, str]:
    """The names that a device's topics have in place of the profile's braces.

    Raises:
        ValueError: one is missing, or cannot stand in a topic.
    """
    names = {}
    for name in sorted(profile.names):
        text = parameters.get(name, "").strip("/")
        if not text or set(text) & set("+#\0{}"):
            raise ValueError(f"{name}: {text!r}: {profile.profile} needs a part of an MQTT topic")
        names[name] = text
    return names


def units_of(kind: Kind, table: Variables) -> dict[int | str, str]:
    """The device's words for units that measure a kind, with ours; the canonical one first."""
    ours = (kind.unit, *UNITS.get(kind.quantity or "", {}))
    found: dict[int | str, str] = {}
    for unit in dict.fromkeys(ours):
        theirs = [word for word, meant in table.unit_names.items() if meant == unit]
        found.update(dict.fromkeys(theirs or (unit,), unit))
    return found
