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


#: What a write does: "caps" or the loop whose supply temperature moves; whether the value rises
#: (None: the value before is not known); and why.
Deed = tuple[str, bool | None, str]
_Group = tuple[Deed, list[tuple[int, float]]]


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
        return self._told(((c.point, c.value) for c in commands), ("Lowered", "Raised", "Set"))

    def withheld(self, writes: Sequence[tuple[PointId, float, str]]) -> str:
        """What would be written, and what stands in the way."""
        told = self._told(
            ((point, value) for point, value, _ in writes),
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

    def _grouped(self, writes: Iterable[tuple[PointId, float]]) -> list[_Group]:
        """Writes that do the same for the same reason, by node and value; the largest first."""
        groups: dict[Deed, list[tuple[int, float]]] = {}
        before_w, nodes = self.force.in_force_w.tolist(), self.site.cap_index
        leases, reasons = self.leases, self.wanted.reasons
        for point, value in writes:
            lease = leases.get(point) if leases else None
            asked = "" if lease is None else f"{lease.by}: {lease.reason}"
            node = nodes.get(point)
            if node is None:
                deed = self._of_loop(point, value, asked)
                node = -1
            else:
                deed = ("caps", _rises(before_w[node], value), asked or reasons.bare(node))
            group = groups.get(deed)
            if group is None:
                groups[deed] = [(node, value)]
            else:
                group.append((node, value))
        return sorted(groups.items(), key=lambda group: -len(group[1]))

    def _of_loop(self, point: PointId, value: float, asked: str) -> Deed:
        loop = self.site.setpoint_loop.get(point)
        if loop is None:
            return str(point), None, asked
        present_c = self.outcomes[loop].present_c
        why = asked or self.outcomes[loop].move.text
        return self.site.loops[loop].name, None if present_c is None else value > present_c, why

    def _told(self, writes: Iterable[tuple[PointId, float]], verbs: tuple[str, str, str]) -> str:
        (first, members), *others = self._grouped(writes)
        what, up, why = first
        lowered, raised, put = verbs
        verb = put if up is None else raised if up else lowered
        text = f"{verb} {self._object(what, members)}"
        if why:
            text += f": {why}"
        rest = sum(len(group) for _, group in others)
        if rest:
            text += f"; and {rest} more {'write' if rest == 1 else 'writes'}"
        return text + "."

    def _object(self, what: str, members: Sequence[tuple[int, float]]) -> str:
        values = [value for _, value in members]
        low, high = min(values), max(values)
        if what.endswith(":power_off"):
            return f"{what.partition(':')[0]} to off"
        if what != "caps":
            return f"the supply temperature of {what} to {high:.1f} °C"
        watts = f"{high:.0f} W" if round(low) == round(high) else f"{low:.0f}-{high:.0f} W"
        site = self.site
        if len(members) == 1:
            return f"the GPU caps of {site.nodes[members[0][0]]} to {watts}"
        racks = sorted({int(site.node_rack[node]) for node, _ in members})
        where = spans([site.racks[rack] for rack in racks], site.racks)
        return f"the GPU caps of {len(members)} nodes in {where} to {watts}"


def _rises(before: float, value: float) -> bool | None:
    return None if math.isnan(before) else value > before


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
