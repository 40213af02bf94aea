"""What taking something out would cost: racks that go dark, spares that go, limits that break."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from controllers.allocation.heat import heat_rows
from controllers.headroom import Headroom
from controllers.wording import kilowatts, lacking, listed
from facility import config
from facility.points import FloatArray
from facility.topology import Topology

Code = Literal[
    "dark_racks", "dark_loads", "single_fed", "overload", "redundancy_lost", "cooling_short"
]
#: Every kind, in the order in which people are told.
CODES: Final[tuple[Code, ...]] = (
    "dark_racks",
    "dark_loads",
    "overload",
    "single_fed",
    "redundancy_lost",
    "cooling_short",
)


@dataclass(frozen=True, slots=True)
class Consequence:
    """One thing that somebody must accept.

    Attributes:
        names: racks, loads, elements or loops that it is about.
        missing_w: W that lack, where it is about a limit.
    """

    code: Code
    names: tuple[str, ...]
    text: str
    missing_w: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        return {
            "code": self.code,
            "names": list(self.names),
            "text": self.text,
            "missing_w": self.missing_w,
        }


def consequences(
    before: Topology,
    after: Headroom,
    loops: Mapping[str, config.Loop],
    known: Collection[str] = (),
) -> tuple[Consequence, ...]:
    """What is worse on the plant of `after` than on `before`; in the order of `CODES`.

    Args:
        before: the plant as it is.
        after: the study without what is to be taken out, at the loads it would have.
        loops: of the site.
        known: elements that lack headroom already; no news.
    """
    found = [
        _dark(before, after.topology),
        _dark_loads(before, after.topology),
        _over(after),
        _single_fed(before, after.topology),
        _thin(after, known),
        cooling_short(after.topology, after.load_w, loops, before),
    ]
    return tuple(one for one in found if one is not None)


def _dark(before: Topology, after: Topology) -> Consequence | None:
    dark = before.compiled.up[0] & ~after.compiled.up[0]
    names = tuple(n for n, gone in zip(after.racks, dark, strict=False) if gone)
    if not names:
        return None
    goes = "rack goes" if len(names) == 1 else "racks go"
    return Consequence("dark_racks", names, f"{len(names)} {goes} dark: {listed(names)}.")


def _dark_loads(before: Topology, after: Topology) -> Consequence | None:
    first = len(after.racks)
    dark = before.compiled.up[0] & ~after.compiled.up[0]
    names = tuple(after.loads[i] for i in np.flatnonzero(dark) if i >= first)
    if not names:
        return None
    goes = "loses" if len(names) == 1 else "lose"
    return Consequence("dark_loads", names, f"{listed(names)} {goes} supply.")


def spareless(topology: Topology) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """bool[L]: loads that are up and that some further single loss darkens, sources aside."""
    up = topology.compiled.up
    lost = topology.compiled.lost
    kinds = np.array([e >= 0 and topology.kinds[int(e)] != "source" for e in lost], dtype=np.bool_)
    return np.asarray(up[0] & ~up[kinds].all(axis=0), dtype=np.bool_)


def _single_fed(before: Topology, after: Topology) -> Consequence | None:
    racks = len(after.racks)
    new = (spareless(after) & ~spareless(before))[:racks]
    names = tuple(after.racks[i] for i in np.flatnonzero(new))
    if not names:
        return None
    have = "rack has" if len(names) == 1 else "racks have"
    text = f"{len(names)} {have} no spare feed: {listed(names)}. One more loss there darkens it."
    return Consequence("single_fed", names, text)


def _over(after: Headroom) -> Consequence | None:
    over_w = after.normal_w - after.limit_w
    rows = np.flatnonzero(over_w > 1e-9 * after.limit_w)
    if not len(rows):
        return None
    rows = rows[np.argsort(-over_w[rows], kind="stable")]
    names = tuple(after.topology.elements[e] for e in rows)
    most = float(over_w[rows[0]])
    text = f"{names[0]} would be {kilowatts(most)} over its limit at once{_more(names)}."
    return Consequence("overload", names, text, most)


def _thin(after: Headroom, known: Collection[str]) -> Consequence | None:
    short = [
        (element, case, lacks)
        for element, case, lacks in after.negative()
        if case != "normal" and element not in known
    ]
    if not short:
        return None
    names = tuple(element for element, _, _ in short)
    element, case, lacks_w = short[0]
    text = f"{element} lacks {lacking(lacks_w)} after {case}{_more(names)}."
    return Consequence("redundancy_lost", names, text, lacks_w)


def _more(names: Sequence[str]) -> str:
    return f", and {len(names) - 1} more" if len(names) > 1 else ""


def cooling_short(
    topology: Topology,
    load_w: FloatArray,
    loops: Mapping[str, config.Loop],
    before: Topology | None = None,
) -> Consequence | None:
    """The loops that cannot take their racks' heat in some case; `before`: and could there."""
    short = _heat_short(topology, load_w, loops)
    if before is not None:
        old = _heat_short(before, load_w, loops)
        short = {name: row for name, row in short.items() if name not in old}
    if not short:
        return None
    name, (case, lacks_w) = max(short.items(), key=lambda item: item[1][1])
    text = f"{name} cannot take {kilowatts(lacks_w)} of heat away, {case}{_more(tuple(short))}."
    return Consequence("cooling_short", tuple(short), text, lacks_w)


def _heat_short(
    topology: Topology, load_w: FloatArray, loops: Mapping[str, config.Loop]
) -> dict[str, tuple[str, float]]:
    worst: dict[str, tuple[str, float]] = {}
    for row in heat_rows(topology, loops):
        lacks_w = float(row.share @ load_w) - row.capacity_w
        if lacks_w > 1.0 and lacks_w > worst.get(row.loop, ("", 0.0))[1]:
            worst[row.loop] = (row.case, lacks_w)
    return worst
