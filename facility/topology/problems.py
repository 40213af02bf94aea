"""What is wrong with a power section, all of it at once, in words for the person who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from facility import config
from facility.topology.ratings import amps_va, ratings_of, text_rating

#: path below the file's root, what is wrong, what to do (or None).
Fault = tuple[str, str, str | None]


def named(name: str, known: Iterable[str]) -> str | None:
    """The name that is meant, capitals aside; None when there is none, or more than one."""
    names = list(known)
    if name in names:
        return name
    alike = [other for other in names if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Ask "did you mean X?"; None when nothing is near. Capitals do not count."""
    by_folded: dict[str, str] = {}
    for other in known:
        by_folded.setdefault(other.casefold(), other)
    near = difflib.get_close_matches(name.casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"did you mean {by_folded[near[0]]}?" if near else None


def load_out(name: str) -> str | None:
    """The load that `load:NAME` in maintenance stands for; None for an element's name."""
    kind, found, load = name.partition(":")
    return load if found and kind == "load" else None


def topology_problems(power: config.Power) -> list[Fault]:
    """Every fault of a power section: (path, problem, hint), in file order.

    An empty list means that `Topology.of(power)` works.
    """
    faults: list[Fault] = []
    nodes = [*power.elements, *power.groups]
    for name in power.groups:
        if name in power.elements:
            faults.append((f"power.groups.{name}", "an element has this name already", None))
    for name in power.loads:
        if name in power.racks:
            faults.append((f"power.loads.{name}", "a rack has this name already", None))
    for name, element in power.elements.items():
        faults.extend(_element_faults(name, element, nodes))
    for name, group in power.groups.items():
        faults.extend(_group_faults(name, group, nodes))
    faults.extend(_cycles(power))
    for i, name in enumerate(power.maintenance):
        idle = load_out(name)
        if idle is not None and idle not in power.loads:
            hint = suggestion(idle, power.loads)
            faults.append((f"power.maintenance.{i}", f"no load {idle!r}", hint))
        elif idle is None and name not in power.elements:
            what = "a group, not an element" if name in power.groups else "no element"
            faults.append(
                (f"power.maintenance.{i}", f"{name!r} is {what}", suggestion(name, power.elements))
            )
    for name, rack in power.racks.items():
        faults.extend(_load_faults(f"power.racks.{name}", rack, nodes))
        faults.extend(_space_faults(f"power.racks.{name}.space", rack.space))
    for name, load in power.loads.items():
        faults.extend(_load_faults(f"power.loads.{name}", load, nodes))
    faults.extend(_row_faults(power))
    return faults


def _space_faults(path: str, space: config.Space | None) -> list[Fault]:
    """More used than there is."""
    if space is None:
        return []
    pairs = (
        ("units_used", space.units_used, space.units),
        ("weight", space.weight, space.weight_limit),
        ("ports_used", space.ports_used, space.ports),
    )
    return [
        (f"{path}.{key}", f"{used:g} is more than the {there:g} that there are", None)
        for key, used, there in pairs
        if used is not None and there is not None and used > there
    ]


def _row_faults(power: config.Power) -> list[Fault]:
    faults: list[Fault] = []
    stands: dict[str, str] = {}
    for name, row in power.rows.items():
        for i, rack in enumerate(row.racks):
            where = f"power.rows.{name}.racks.{i}"
            if rack not in power.racks:
                faults.append((where, f"no rack {rack!r}", suggestion(rack, power.racks)))
            elif rack in stands:
                faults.append((where, f"{rack!r} stands in {stands[rack]} already", None))
            stands.setdefault(rack, name)
        if row.positions is not None and len(row.racks) > row.positions:
            problem = f"{len(row.racks)} racks stand in {row.positions} positions"
            faults.append((f"power.rows.{name}.positions", problem, None))
    return faults


def _names(path: str, names: Iterable[str], nodes: list[str]) -> list[Fault]:
    return [
        (f"{path}.{i}", f"no element or group {name!r}", suggestion(name, nodes))
        for i, name in enumerate(names)
        if name not in nodes
    ]


def _twice(path: str, names: tuple[str, ...]) -> list[Fault]:
    return [
        (f"{path}.{i}", f"{name!r} stands here twice", None)
        for i, name in enumerate(names)
        if name in names[:i]
    ]


def _element_faults(name: str, element: config.Element, nodes: list[str]) -> list[Fault]:
    path = f"power.elements.{name}"
    faults = _names(f"{path}.fed_by", element.fed_by, nodes)
    faults += _twice(f"{path}.fed_by", element.fed_by)
    transfer = element.transfer
    if transfer is not None:
        for key, parent in (("normal", transfer.normal), ("alternate", transfer.alternate)):
            if parent not in nodes:
                problem = f"no element or group {parent!r}"
                faults.append((f"{path}.transfer.{key}", problem, suggestion(parent, nodes)))
        if transfer.normal == transfer.alternate:
            faults.append((f"{path}.transfer", "normal and alternate are the same", None))
        if element.fed_by and set(element.fed_by) != {transfer.normal, transfer.alternate}:
            faults.append((f"{path}.fed_by", "a switch is fed by its transfer", "remove fed_by"))
    if element.kind == "source":
        if element.fed_by or transfer is not None:
            faults.append((path, "a source has no parent", "remove fed_by or change its kind"))
    elif not element.fed_by and transfer is None:
        faults.append((path, f"this {element.kind} has no parent", "name what feeds it: fed_by"))
    faults.extend(_rating_faults(path, element))
    if element.autonomy is not None and element.kind != "ups":
        faults.append((f"{path}.autonomy", "only a ups lives without a parent", None))
    shelf_keys = (element.modules, element.needs, element.module_rating)
    if element.kind != "shelf" and any(key is not None for key in shelf_keys):
        faults.append((path, "only a shelf has modules, needs and module_rating", None))
    if element.kind == "shelf":
        if (element.modules is None) != (element.module_rating is None):
            faults.append((path, "a shelf states modules and module_rating together", None))
        if element.needs is not None and element.modules is None:
            faults.append((f"{path}.needs", "needs goes with modules", None))
        elif (element.needs or 0) > (element.modules or element.needs or 0):
            faults.append(
                (f"{path}.needs", f"needs {element.needs} of {element.modules} modules", None)
            )
    if element.continuous is not None and element.continuous <= 0.0:
        faults.append((f"{path}.continuous", "must be above zero", None))
    return faults


def _rating_faults(path: str, element: config.Element) -> list[Fault]:
    faults: list[Fault] = []
    single = not isinstance(element.rating, tuple)
    for i, rating in enumerate(ratings_of(element)):
        where = f"{path}.rating" if single else f"{path}.rating.{i}"
        try:
            if isinstance(rating, config.CurrentRating):
                amps_va(rating)
            else:
                text_rating(rating)
        except ValueError as error:
            faults.append((where, str(error), None))
    return faults


def _group_faults(name: str, group: config.Group, nodes: list[str]) -> list[Fault]:
    path = f"power.groups.{name}"
    faults = _names(f"{path}.members", group.members, nodes)
    faults += _twice(f"{path}.members", group.members)
    if group.needs is not None and group.needs > len(group.members):
        faults.append((f"{path}.needs", f"needs {group.needs} of {len(group.members)}", None))
    return faults


def parents_of(power: config.Power) -> dict[str, tuple[str, ...]]:
    """Parents of each element and group as written, unknown names included."""
    parents: dict[str, tuple[str, ...]] = {}
    for name, element in power.elements.items():
        if element.transfer is not None:
            parents[name] = (element.transfer.normal, element.transfer.alternate)
        else:
            parents[name] = element.fed_by
    for name, group in power.groups.items():
        parents[name] = group.members
    return parents


def _cycles(power: config.Power) -> list[Fault]:
    parents = parents_of(power)
    done: set[str] = set()
    faults: list[Fault] = []
    for start in parents:
        if start in done:
            continue
        trail: list[str] = []
        on_trail: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                trail.pop()
                on_trail.discard(name)
                done.add(name)
                continue
            if name in on_trail:
                ring = [*trail[trail.index(name) :], name]
                section = "groups" if name in power.groups else "elements"
                faults.append(
                    (f"power.{section}.{name}", f"fed in a ring: {' <- '.join(ring)}", None)
                )
                continue
            if name in done or name not in parents:
                continue
            trail.append(name)
            on_trail.add(name)
            stack.append((name, True))
            stack.extend((parent, False) for parent in reversed(parents[name]))
    return faults


def _load_faults(path: str, load: config.LoadBase, nodes: list[str]) -> list[Fault]:
    faults: list[Fault] = []
    for feed, parent in load.feeds.items():
        if parent not in nodes:
            problem = f"no element or group {parent!r}"
            faults.append((f"{path}.feeds.{feed}", problem, suggestion(parent, nodes)))
    if load.needs > len(load.feeds):
        faults.append((f"{path}.needs", f"needs {load.needs} of {len(load.feeds)} feeds", None))
    faults += split_faults(f"{path}.split", load.split, load.feeds)
    faults += phase_faults(f"{path}.phases", load.phases, load.feeds)
    return faults


def split_faults(path: str, split: Mapping[str, float] | None, feeds: Iterable[str]) -> list[Fault]:
    """Faults of a split: unknown feeds, negative or non-finite shares."""
    known = list(feeds)
    faults: list[Fault] = []
    for feed, share in (split or {}).items():
        if feed not in known:
            faults.append((f"{path}.{feed}", f"no feed {feed!r}", suggestion(feed, known)))
        elif not 0.0 <= share < float("inf"):
            faults.append((f"{path}.{feed}", "must be a number of at least zero", None))
    return faults


def phase_faults(
    path: str, phases: Mapping[str, Mapping[Any, float]] | None, feeds: Iterable[str]
) -> list[Fault]:
    """Faults of phase shares: unknown feeds or phases, shares that do not make up a whole."""
    known = list(feeds)
    faults: list[Fault] = []
    for feed, shares in (phases or {}).items():
        if feed not in known:
            faults.append((f"{path}.{feed}", f"no feed {feed!r}", suggestion(feed, known)))
            continue
        strange = [phase for phase in shares if phase not in ("L1", "L2", "L3")]
        if strange:
            faults.append((f"{path}.{feed}.{strange[0]}", "no phase; phases are L1, L2, L3", None))
        elif not all(0.0 <= share <= 1.0 for share in shares.values()):
            faults.append((f"{path}.{feed}", "a phase's share lies between 0 and 1", None))
        elif abs(sum(shares.values()) - 1.0) > 0.02:
            total = sum(shares.values())
            faults.append((f"{path}.{feed}", f"the shares make {total:g}, not 1", None))
    return faults
