"""Headroom: what every element can still take in its worst case, and what every rack may add.

The law: least over the cases in which an element is alive of limit − load; ties within 1e-9 of
the limit go to `normal` first, then to file order. A rack's headroom is the most that it alone
can add until some element on its own paths is at its limit in some case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from controllers.wording import NAMED, lacking, listed, room_left
from controllers.wording import kilowatts as kilowatts
from facility.lazily import Lazily
from facility.points import FloatArray, IntArray
from facility.topology import Shares, Topology


@dataclass(frozen=True)
class Headroom:
    """The answer of one N+1 study.

    Attributes:
        load_w: float64[L], W.
        limit_w: float64[E], W; inf when unrated.
        normal_w: float64[E]; 0 on an element that is dead.
        worst_w, headroom_w: float64[E]; NaN where never alive; headroom inf when unrated.
        worst_case: int64[E]; case index that binds, -1 where never alive.
        rack_headroom_w: float64[L]; NaN where dark in the normal case, inf without any limit.
    """

    topology: Topology = field(repr=False)
    load_w: FloatArray
    limit_w: FloatArray
    normal_w: FloatArray
    worst_w: FloatArray
    worst_case: IntArray
    headroom_w: FloatArray
    rack_headroom_w: FloatArray

    @cached_property
    def ok(self) -> bool:
        """Whether no headroom is negative."""
        return not bool(np.any(self.headroom_w < 0.0))

    @cached_property
    def tightest(self) -> int | None:
        """Row of the element with the least headroom; None where nothing has a limit."""
        rated = np.isfinite(self.headroom_w)
        if not rated.any():
            return None
        least = float(np.min(self.headroom_w[rated]))
        near = self.headroom_w <= least + 1e-9 * self.limit_w
        return int(np.flatnonzero(rated & near)[0])

    @property
    def binding(self) -> tuple[str, str, float] | None:
        """Element, case and W of the least headroom."""
        row = self.tightest
        if row is None:
            return None
        case = self.topology.case_names[int(self.worst_case[row])]
        return self.topology.elements[row], case, float(self.headroom_w[row])

    def negative(self) -> list[tuple[str, str, float]]:
        """Every element that lacks headroom: (element, case, W missing), worst first."""
        rows = np.flatnonzero(self.headroom_w < 0.0)
        rows = rows[np.argsort(self.headroom_w[rows], kind="stable")]
        names, cases = self.topology.elements, self.topology.case_names
        return [
            (names[e], cases[int(self.worst_case[e])], -float(self.headroom_w[e])) for e in rows
        ]

    def to_json(self) -> dict[str, Any]:
        """The document of `headroom --json`."""
        return dict(self.told())

    def told(self) -> Mapping[str, Any]:
        """The same document, its tables made when somebody looks."""
        t = self.topology
        binding = self.binding
        return Lazily(
            {
                "ok": self.ok,
                "cases": len(t.case_names),
                "elements": (),
                "racks": (),
                "loads": (),
                "binding": None
                if binding is None
                else {"element": binding[0], "case": binding[1], "headroom_w": binding[2]},
            },
            {
                "elements": lambda: [self._element(e) for e in range(len(t.elements))],
                "racks": lambda: [self._rack(i) for i in range(len(t.racks))],
                "loads": lambda: [self._load(i) for i in range(len(t.racks), len(t.loads))],
            },
        )

    def _load(self, i: int) -> dict[str, Any]:
        t = self.topology
        return {"load": t.loads[i], "load_w": float(self.load_w[i]), "down_in": down_in(t, i)}

    def _element(self, e: int) -> dict[str, Any]:
        t, case = self.topology, int(self.worst_case[e])
        return {
            "element": t.elements[e],
            "kind": t.kinds[e],
            "limit_w": _known(self.limit_w[e]),
            "normal_w": float(self.normal_w[e]),
            "worst_w": _known(self.worst_w[e]),
            "worst_case": t.case_names[case] if case >= 0 else None,
            "headroom_w": _known(self.headroom_w[e]),
            "power_factor": _known(t.power_factor[e]),
        }

    def _rack(self, i: int) -> dict[str, Any]:
        t = self.topology
        return {
            "rack": t.loads[i],
            "load_w": float(self.load_w[i]),
            "down_in": down_in(t, i),
            "single_fed": int(t.feed_counts[i]) == 1,
            "shared": shared(t, i),
            "headroom_w": _known(self.rack_headroom_w[i]),
        }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def down_in(topology: Topology, load: int) -> list[str]:
    """Names of the cases in which a load is down."""
    return [topology.case_names[k] for k in np.flatnonzero(~topology.compiled.up[:, load])]


def shared(topology: Topology, load: int) -> list[str]:
    """Elements other than sources whose loss darkens a load with more feeds than it needs."""
    c = topology.compiled
    if topology.feed_counts[load] <= topology.load_needs[load] or not c.up[0, load]:
        return []
    lost = c.lost[np.flatnonzero(~c.up[:, load])]
    return [topology.elements[e] for e in lost if topology.kinds[e] != "source"]


def study(
    topology: Topology,
    load_w: FloatArray,
    split: FloatArray | None = None,
    phases: FloatArray | None = None,
) -> Headroom:
    """Headroom of every element and load in every case.

    Args:
        topology: the plant, maintenance included.
        load_w: float64[L], W of each load while it is up.
        split: float64[F]; None as in the file, NaN where not measured.
        phases: float64[F, 3]; None as in the file.
    """
    return study_shares(Shares.of(topology, split, phases), load_w)


def study_shares(shares: Shares, load_w: FloatArray) -> Headroom:
    """As `study`, with the split already folded in."""
    topology, s = shares.topology, shares.structure
    elements = len(topology.elements)
    normal, worst = np.zeros(elements), np.full(elements, np.nan)
    headroom = np.full(elements, np.nan)
    case = np.full(elements, -1, dtype=np.int64)
    if len(s.checks):
        cell_w = shares.loads_w(load_w)
        slack = shares.slack_of(cell_w)
        best = np.minimum.reduceat(slack, s.first_cell)
        least, at = _first_least(slack, best, s.limit_w[s.checks], s.first_cell)
        unrated = np.isinf(s.limit_w[s.checks])
        if unrated.any():
            most = -np.maximum.reduceat(cell_w, s.first_cell)
            _, heaviest = _first_least(-cell_w, most, np.abs(most), s.first_cell)
            at = np.where(unrated, heaviest, at)
        whole = s.check_phase[s.checks] < 0
        rows = s.check_element[s.checks[whole]]
        normal[rows] = cell_w[s.first_cell[whole]]
        headroom[rows], worst[rows] = least[whole], cell_w[at[whole]]
        case[rows] = s.cell_case[at[whole]]
        _fullest_phase(shares, cell_w, least, at, headroom, worst, case)
        racks = _load_headroom(shares, slack)
    else:
        racks = np.full(len(topology.loads), np.inf)
    dark = ~topology.compiled.up[0]
    return Headroom(
        topology=topology,
        load_w=load_w,
        limit_w=topology.limit_w,
        normal_w=normal,
        worst_w=worst,
        worst_case=case,
        headroom_w=headroom,
        rack_headroom_w=np.where(dark, np.nan, np.maximum(racks, 0.0)),
    )


def _first_least(
    value: FloatArray, best: FloatArray, scale: FloatArray, first: IntArray
) -> tuple[FloatArray, IntArray]:
    """Per segment the first value within 1e-9 of `scale` of the best, and where it stands."""
    lengths = np.diff(np.append(first, len(value)))
    room = np.where(np.isfinite(scale), 1e-9 * scale, 0.0)
    near = value <= np.repeat(best + room, lengths)
    where = np.where(near, np.arange(len(value)), len(value))
    at = np.minimum.reduceat(where, first)
    return value[at], at


def _fullest_phase(
    shares: Shares,
    cell_w: FloatArray,
    least: FloatArray,
    at: IntArray,
    headroom: FloatArray,
    worst: FloatArray,
    case: IntArray,
) -> None:
    """Where the fullest phase leaves less, the headroom is three times its room (in place).

    Of phases (and the whole) that leave equally little, the one that does so first counts.
    """
    s = shares.structure
    phased = np.flatnonzero(s.check_phase[s.checks] >= 0)
    if not len(phased):
        return
    e, room, where = s.check_element[s.checks[phased]], 3.0 * least[phased], s.cell_case[at[phased]]
    tie = 1e-9 * np.where(np.isfinite(limit_w := shares.topology.limit_w), limit_w, 0.0)
    best = headroom.copy()
    np.fmin.at(best, e, room)
    fuller = np.flatnonzero(best < headroom - tie)
    first = np.where(headroom <= best + tie, case, len(shares.topology.case_names))
    near = room <= best[e] + tie[e]
    np.minimum.at(first, e[near], where[near])
    changed = np.union1d(fuller, e[near & (first[e] < case[e])])
    headroom[fuller], case[changed] = best[fuller], first[changed]
    for row in changed.tolist():
        low, high = np.searchsorted(s.cell_check, [row, row + 1])
        cell = low + int(np.searchsorted(s.cell_case[low:high], case[row]))
        same = cell < high and s.cell_case[cell] == case[row]
        worst[row] = cell_w[cell if same else low]


def _load_headroom(shares: Shares, slack: FloatArray) -> FloatArray:
    """float64[L]: least of slack/weight over all cells that a load touches; inf without any."""
    s = shares.structure
    out = np.full(len(shares.topology.loads), np.inf)
    order, first, which = s.groups_by_load
    if len(order):
        free = np.full(len(order), np.inf)
        weighs = shares.group_w > 1e-12
        np.divide(slack[s.group_cell], shares.group_w, out=free, where=weighs)
        out[which] = np.minimum.reduceat(free[order], first)
    # Cells that do not change a load weigh it as the normal one does; the cell with the least
    # slack among them counts. Few cells change a load, so few are skipped.
    order = np.lexsort((slack, s.cell_check))
    start = np.zeros(len(s.limit_w), dtype=np.int64)
    start[s.checks] = s.first_cell
    base = np.flatnonzero(shares.base_w > 1e-12)
    load, weight = s.base_load[base], shares.base_w[base]
    place = start[s.base_check[base]]
    going = np.arange(len(base))
    while len(going):
        going = going[s.changed[order[place[going]], load[going]]]
        place[going] += 1
    np.minimum.at(out, load, slack[order[place]] / weight)
    return out


@dataclass(frozen=True, slots=True)
class Plight:
    """What the numbers of a study do not know of themselves.

    Attributes:
        lost: elements believed lost, besides maintenance.
        since: moment from which that, or the lack of redundancy, is so, in site time; "" unknown.
        remedy: what happens now and what a person is to do, in sentences; "" nothing.
        trouble: what is wrong besides power (cooling), in sentences; "" nothing.
    """

    lost: tuple[str, ...] = ()
    since: str = ""
    remedy: str = ""
    trouble: str = ""


def sentence(headroom: Headroom, plight: Plight | None = None) -> str:
    """What an operator must know first: what is dark, lost, without a spare, tightest; what to do.

    Not overloaded is not supplied: a loss counts as survivable only if it also darkens no rack
    that has a second feed.
    """
    plight = plight or Plight()
    since = f" since {plight.since}" if plight.since else ""
    in_dark, alone = _dark(headroom), spareless(headroom)
    first = _joined(in_dark, plight.trouble)
    if plight.lost:
        verb = "is" if len(plight.lost) == 1 else "are"
        start = f"{', '.join(name.upper() for name in plight.lost)} {verb} lost{since}"
        if headroom.ok and not in_dark:
            start += ", and nothing is overloaded"
        tail = (alone, _tightest(headroom, " too"), _single_fed(headroom))
        return _joined(first, f"{start}.", *tail, plight)
    if headroom.binding is None:
        unknown = "" if in_dark else "No element has a rating: nothing is known of any loss."
        return _joined(first, alone, unknown, _single_fed(headroom), plight)
    if not headroom.ok:
        return _joined(first, _tightest(headroom, "", since), alone, _single_fed(headroom), plight)
    t = headroom.topology
    backed = not len(t.racks) or bool((t.feed_counts[: len(t.racks)] > 1).any())
    healthy = "Any single loss is survivable."
    if plight.trouble:
        healthy = "Of power, any single loss is survivable."
    if in_dark or alone or not backed:
        healthy = ""
    return _joined(first, alone, healthy, _tightest(headroom, ""), _single_fed(headroom), plight)


def _joined(*parts: str | Plight) -> str:
    texts = (part.remedy if isinstance(part, Plight) else part for part in parts)
    return " ".join(text for text in texts if text)


def _dark(headroom: Headroom) -> str:
    """Racks without supply now."""
    t = headroom.topology
    names = [rack for i, rack in enumerate(t.racks) if not t.compiled.up[0, i]]
    if not names:
        return ""
    racks_are = "1 rack is" if len(names) == 1 else f"{len(names)} racks are"
    return f"{racks_are} dark: {listed(names)}."


def spareless(headroom: Headroom) -> str:
    """Racks with more than one feed that some single loss darkens all the same."""
    t, c = headroom.topology, headroom.topology.compiled
    racks = len(t.racks)
    living = t.feed_counts - np.bincount(t.feed_load[t.dead_feeds], minlength=len(t.loads))
    at_risk = ((t.feed_counts > 1) & c.up[0] & ~c.up.all(axis=0))[:racks]
    alone = at_risk & (living[:racks] == 1)
    parts = []
    if count := int(alone.sum()):
        hang, them = ("1 rack hangs", "it") if count == 1 else (f"{count} racks hang", "them")
        parts.append(f"{hang} on one feed: losing it darkens {them}.")
    rest = np.flatnonzero(at_risk & ~alone)
    if len(rest):
        cases = np.flatnonzero(~c.up[:, rest].all(axis=1))
        where = [t.elements[int(e)].upper() for e in c.lost[cases]]
        names = ", ".join(where[:NAMED]) + (f", {len(where) - NAMED} more" if where[NAMED:] else "")
        hang, them = ("1 rack hangs", "it") if len(rest) == 1 else (f"{len(rest)} racks hang", "")
        losing = "losing it" if len(where) == 1 else "losing one of these"
        parts.append(f"{hang} on {names} with all feeds: {losing} darkens {them or 'them'}.")
    return " ".join(parts)


def _single_fed(headroom: Headroom) -> str:
    """Racks that have but one feed by their own declaration, and are supplied."""
    t = headroom.topology
    names = [
        rack for i, rack in enumerate(t.racks) if int(t.feed_counts[i]) == 1 and t.compiled.up[0, i]
    ]
    if not names:
        return ""
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'} single-fed."


def _tightest(headroom: Headroom, too: str, since: str = "") -> str:
    """The least headroom: which element, in which case, how many kW."""
    if headroom.binding is None:
        return ""
    if headroom.ok and not headroom.topology.compiled.up[0].any():
        return ""  # Nothing is supplied: room on paper helps nobody.
    element, case, room_w = headroom.binding
    failing = case.removeprefix("loss of ").upper()
    condition = "now" if case == "normal" else f"if {failing} fails{too}"
    if headroom.ok:
        return f"Tightest: {element.upper()} {condition}, {room_left(room_w)} left."
    more = len(headroom.negative()) - 1
    others = f" {more} more element{'s' if more > 1 else ''} would be over." if more else ""
    start = "Over its limit now" if case == "normal" else "Redundancy is lost"
    return f"{start}{since}: {element.upper()} lacks {lacking(-room_w)} {condition}.{others}"
