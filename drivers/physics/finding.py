"""Which laws apply to a device: every one whose points it has, unless its profile says why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from drivers.physics.electrical import Delta, Lines, Product, Total, Within
from drivers.physics.liquid import Dew, Heat
from drivers.physics.rules import ONE, PHASES, Rule
from drivers.physics.vocabulary import ACTIVE, APPARENT, PARTS, SUM
from drivers.profile import Unchecked
from drivers.profile.binding import Binding, BoundPoint, ModbusAt, SnmpAt
from facility.points import PointId

#: parts that stand for all phases of a device at once
WHOLES: Final = ("total", "inlet", "input", "output", "bypass")
#: rows that are all that flows through a whole
COMPLETE: Final = ("phase", "line", "input", "output", "bypass")
#: rows that may have no meter here and there
PARTIAL: Final = ("outlet", "branch", "bank", "circuit", "breaker", "group")


@dataclass(frozen=True, slots=True)
class Known:
    """A point as the rules need it.

    Attributes:
        place: in the list of all points of the device.
        step: of its register, canonical unit; 0 where its numbers are not whole counts.
        layout: key of the layout that it is read with.
        summed: places of the points that it was added up from; empty for what was read.
    """

    place: int
    step: float
    layout: str
    summed: tuple[int, ...] = ()


Points = Mapping[tuple[str, str], Known]


def step_of(point: BoundPoint) -> float:
    """Step of a register; 0 for floats and for numbers in text, whose steps nobody knows."""
    if isinstance(point.at, ModbusAt):
        return 0.0 if point.at.where.type in ("f32", "f64", "text") else point.entry.resolution
    return point.entry.resolution if isinstance(point.at, SnmpAt) else 0.0


def known_points(binding: Binding) -> dict[tuple[str, str], Known]:
    """Part and kind -> the point; places count through the layouts, sums after the rest."""
    found: dict[tuple[str, str], Known] = {}
    place = 0
    for layout in binding.layouts:
        start, points = place, binding.points[layout.key]
        for point in points:
            found[_key(point.spec.id)] = Known(place, step_of(point), layout.key)
            place += 1
        for total in binding.sums[layout.key]:
            step = sum(step_of(points[i]) for i in total.members)
            members = tuple(start + i for i in total.members)
            found[_key(total.spec.id)] = Known(place, step, layout.key, members)
            place += 1
    return found


def rules_of(points: Points, unchecked: Sequence[Unchecked] = ()) -> tuple[Rule, ...]:
    """Every law that can be asked about, less those that the profile says do not hold here."""
    return tuple(
        rule for rule in _rules(points) if not is_unchecked(rule.check, rule.part, unchecked)
    )


def is_unchecked(check: str, part: str, unchecked: Sequence[Unchecked]) -> bool:
    """Whether the profile has switched a check off at a part."""
    return any(u.check == check and fnmatchcase(part, u.part) for u in unchecked)


def _key(point: PointId) -> tuple[str, str]:
    return point.part, point.kind


def _rules(points: Points) -> Iterator[Rule]:
    for part in dict.fromkeys(part for part, _ in points):
        yield from _products(part, points)
        yield from _heats(part, points)
        yield from _dews(part, points)
    for kind, unit in (("active_power", "W"), ("apparent_power", "VA")):
        yield from _totals(kind, unit, points)
    yield from _lines(points)
    yield from _deltas(points)


def _products(part: str, points: Points) -> Iterator[Rule]:
    volts, amperes = points.get((part, "voltage")), points.get((part, "current"))
    active = points.get((part, "active_power"))
    apparent = points.get((part, "apparent_power"))
    factors = PHASES if part.partition(".")[0] == "inlet" or part in WHOLES else ONE
    if volts is not None and amperes is not None:
        for check, power, unit in ((APPARENT, apparent, "VA"), (ACTIVE, active, "W")):
            if power is not None:
                places = power.place, volts.place, amperes.place
                steps = power.step, volts.step, amperes.step
                yield Product(check, part, *places, unit, factors, steps)
    elif active is not None and apparent is not None:
        yield Within(part, active.place, apparent.place, (active.step, apparent.step))


def _heats(part: str, points: Points) -> Iterator[Rule]:
    triple = [
        points.get((part, kind)) for kind in ("flow", "supply_temperature", "return_temperature")
    ]
    loops = [p for p, kind in points if kind == "flow" and (p, "return_temperature") in points]
    heat = points.get((part, "heat"))
    if heat is None and (part == "loop.secondary" or loops == [part]):
        heat = points.get(("total", "heat"))
    flow, supply, back = triple
    if heat is not None and flow is not None and supply is not None and back is not None:
        steps = heat.step, flow.step, max(supply.step, back.step)
        yield Heat(part, heat.place, flow.place, supply.place, back.place, steps)


def _dews(part: str, points: Points) -> Iterator[Rule]:
    three = [points.get((part, kind)) for kind in ("dew_point", "temperature", "humidity")]
    dew, air, humidity = three
    if dew is not None and air is not None and humidity is not None:
        steps = dew.step, air.step, humidity.step
        yield Dew(part, dew.place, air.place, humidity.place, steps)


def _totals(kind: str, unit: str, points: Points) -> Iterator[Rule]:
    rows: dict[str, list[Known]] = {}
    for (part, of), point in points.items():
        name, _, row = part.partition(".")
        if row and of == kind and name in (*COMPLETE, *PARTIAL):
            rows.setdefault(name, []).append(point)
    for name, members in rows.items():
        own = name if name in WHOLES else None
        for whole in (own,) if own is not None else ("total", "inlet", "inlet.1"):
            total = points.get((whole, kind))
            if whole == "inlet.1" and ("inlet.2", kind) in points:
                total = None
            if total is not None:
                break
        places = tuple(member.place for member in members)
        if total is None or set(total.summed) == set(places):
            continue
        both = name in COMPLETE and kind == "active_power"
        step = total.step + sum(member.step for member in members)
        yield Total(SUM if both else PARTS, whole, total.place, places, name, unit, step)


def _lines(points: Points) -> Iterator[Rule]:
    for part, kind in points:
        ends = _ends(part)
        if kind != "voltage" or ends is None:
            continue
        phase, line = points.get((f"phase.{ends[0]}", kind)), points[part, kind]
        if phase is not None:
            yield Lines(part, line.place, phase.place, (line.step, phase.step))


def _deltas(points: Points) -> Iterator[Rule]:
    """Conductors are `line.n`, legs `phase.n` from line n to the next."""
    for number in (1, 2, 3):
        line = points.get((f"line.{number}", "current"))
        leg = points.get((f"phase.{number}", "current"))
        before = points.get((f"phase.{(number + 1) % 3 + 1}", "current"))
        if line is not None and leg is not None and before is not None:
            step = max(line.step, leg.step, before.step)
            yield Delta(f"line.{number}", line.place, (leg.place, before.place), step)


def _ends(part: str) -> tuple[str, str] | None:
    """The two lines that a part such as `line.1-2` lies between."""
    name, _, row = part.partition(".")
    one, _, other = row.partition("-")
    return (one, other) if name == "line" and one in "123" and other in "123" and other else None
