"""What was written last and what is meant next, as sentences that a tired person can read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controllers.cooling import LoopOutcome
from controllers.cycle.wanted import Wanted
from controllers.gpu_caps import CapForce
from facility.commands import Command, Override
from facility.points import PointId
from facility.site import SiteModel

#: A set-point that is to move by less is not worth telling, K.
WORTH_TELLING_K = 0.05


@dataclass(frozen=True, slots=True)
class Deed:
    """One write: what it does to what, and why.

    Attributes:
        what: "caps", or the loop whose supply temperature moves.
        node: the node, for caps.
        up: whether the value rises; None where the value before is not known.
    """

    what: str
    node: str
    up: bool | None
    value: float
    why: str


@dataclass(frozen=True)
class Teller:
    """Turns writes of one cycle into sentences.

    Attributes:
        leases: overrides in force, by the point that they hold.
    """

    site: SiteModel
    force: CapForce
    wanted: Wanted
    outcomes: Sequence[LoopOutcome]
    leases: Mapping[PointId, Override]

    def written(self, commands: Sequence[Command]) -> str:
        """What these commands do; the largest group first, the others counted."""
        return self._told(
            (self._deed(c.point, c.value) for c in commands), ("Lowered", "Raised", "Set")
        )

    def withheld(self, writes: Sequence[tuple[PointId, float, str]]) -> str:
        """What would be written, and what stands in the way."""
        told = self._told(
            (self._deed(point, value) for point, value, _ in writes),
            ("Would lower", "Would raise", "Would set"),
        )
        return f"{told} Withheld: {writes[0][2]}."

    def coming(self) -> tuple[str, float] | None:
        """The next move of a supply temperature and in how many seconds; None if none is due."""
        for loop, outcome in zip(self.site.loops, self.outcomes, strict=True):
            move, present_c = outcome.move, outcome.present_c
            if present_c is None or move.next_c is None:
                continue
            if abs(move.next_c - present_c) < WORTH_TELLING_K:
                continue
            verb = "rises" if move.next_c > present_c else "falls"
            when = f"in {math.ceil(move.due_s)} s"
            text = f"Supply temperature of {loop.name} {verb} to {move.next_c:.1f} °C {when}"
            return f"{text} ({move.text}).", move.due_s
        return None

    def _deed(self, point: PointId, value: float) -> Deed:
        lease = self.leases.get(point)
        asked = "" if lease is None else f"{lease.by}: {lease.reason}"
        node = self.site.cap_index.get(point)
        if node is not None:
            before = float(self.force.in_force_w[node])
            why = asked or plain(self.wanted.reasons[node])
            return Deed("caps", self.site.nodes[node], _rises(before, value), value, why)
        loop = self.site.setpoint_loop.get(point)
        if loop is None:
            return Deed(str(point), "", None, value, asked)
        present_c = self.outcomes[loop].present_c
        why = asked or self.outcomes[loop].move.text
        name = self.site.loops[loop].name
        return Deed(name, "", None if present_c is None else value > present_c, value, why)

    def _told(self, deeds: Iterable[Deed], verbs: tuple[str, str, str]) -> str:
        groups: dict[tuple[str, bool | None, str], list[Deed]] = {}
        for deed in deeds:
            groups.setdefault((deed.what, deed.up, deed.why), []).append(deed)
        order = sorted(groups.values(), key=lambda group: -len(group))
        first = order[0]
        lowered, raised, put = verbs
        verb = put if first[0].up is None else raised if first[0].up else lowered
        text = f"{verb} {self._object(first)}"
        if first[0].why:
            text += f": {first[0].why}"
        rest = sum(len(group) for group in order[1:])
        if rest:
            text += f"; and {rest} more {'write' if rest == 1 else 'writes'}"
        return text + "."

    def _object(self, group: Sequence[Deed]) -> str:
        low, high = min(d.value for d in group), max(d.value for d in group)
        if group[0].what != "caps":
            return f"the supply temperature of {group[0].what} to {high:.1f} °C"
        watts = f"{high:.0f} W" if round(low) == round(high) else f"{low:.0f}-{high:.0f} W"
        if len(group) == 1:
            return f"the GPU caps of {group[0].node} to {watts}"
        racks = {self.site.facility.nodes[d.node].rack for d in group}
        where = spans([r for r in self.site.racks if r in racks], self.site.racks)
        return f"the GPU caps of {len(group)} nodes in {where} to {watts}"


def _rises(before: float, value: float) -> bool | None:
    return None if math.isnan(before) else value > before


def plain(reason: str) -> str:
    """A cap's reason without its source: "row1-b after loss of pdu-a"."""
    for source in ("plan: ", "water-filling: "):
        reason = reason.removeprefix(source)
    return reason


def spans(names: Sequence[str], every: Sequence[str]) -> str:
    """Neighbours of `every` as ranges: "r01-r04, r07"; three at most are named."""
    place = {name: i for i, name in enumerate(every)}
    runs: list[list[str]] = []
    for name in names:
        if runs and place[name] == place[runs[-1][-1]] + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    told = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {sum(len(run) for run in runs[3:])} more racks" if len(runs) > 3 else ""
    return ", ".join(told[:3]) + more
