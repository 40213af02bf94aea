"""A switching programme for one element, step by step, and what the hall is like at each step.

Three worlds stand behind the steps: the plant whole, the plant without the element, and the moment
of switching, in which either may be true and the worse of both counts. Each world is studied with
every further single loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from controllers.headroom import Headroom
from controllers.maintenance.caps import CapsThatFollow
from controllers.maintenance.consequences import spareless
from controllers.wording import listed
from facility.config import Power
from facility.topology import Topology

World = Literal["whole", "either", "without"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a person does.

    Attributes:
        code: stable name.
        words: what to do; `{x}` stands for the element.
        world: what the plant is like while and after it is done.
    """

    code: str
    words: str
    world: World


_BACK: Final = (
    Step("close_input", "Close the input of {x}.", "without"),
    Step("close_output", "Close the output of {x}.", "either"),
    Step("transfer_back", "Bring its load back to {x}; check that it carries.", "either"),
    Step("done", "End the maintenance; caps may rise again.", "whole"),
)
_SECURE: Final = Step(
    "secure",
    "Wait until Wattkeeper says that N+1 holds without {x}; caps come down first.",
    "whole",
)
#: What is done with each kind of element; others are switched as a breaker is.
PROGRAMMES: Final[Mapping[str, tuple[Step, ...]]] = {
    "ups": (
        _SECURE,
        Step("transfer", "Transfer the load of {x} away: stop its inverter.", "either"),
        Step("open_input", "Open the input of {x}; its battery holds its own bus only.", "without"),
        Step("open_output", "Open the output of {x}.", "without"),
        Step("isolate", "Open its battery breaker, prove dead, lock and tag {x}.", "without"),
        Step("work", "Work on {x}.", "without"),
        *_BACK,
    ),
    "shelf": (
        _SECURE,
        Step("transfer", "Pull the load of {x} over to the other feed.", "either"),
        Step("open_input", "Open the input of {x}.", "without"),
        Step("isolate", "Prove dead, lock and tag {x}.", "without"),
        Step("work", "Work on {x}.", "without"),
        Step("close_input", "Close the input of {x}; check its modules.", "either"),
        Step("done", "End the maintenance; caps may rise again.", "whole"),
    ),
    "other": (
        _SECURE,
        Step("transfer", "Transfer what hangs on {x} to its other supply.", "either"),
        Step("open_output", "Open the breakers below {x}.", "without"),
        Step("open_input", "Open the breaker above {x}.", "without"),
        Step("isolate", "Prove dead, lock, tag and earth {x}.", "without"),
        Step("work", "Work on {x}.", "without"),
        *_BACK,
    ),
}


@dataclass(frozen=True, eq=False)
class View:
    """One world, studied.

    Attributes:
        headroom: at the forecast load, caps as they are.
        caps: that follow in it; None where nobody would move any.
    """

    headroom: Headroom
    caps: CapsThatFollow | None = None
    before: Topology | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """What stands, what is over, and what any further loss would do."""
        t = self.headroom.topology
        up = t.compiled.up
        racks = len(t.racks)
        dark = [t.racks[i] for i in range(racks) if not up[0, i]]
        dark_loads = [t.loads[i] for i in range(racks, len(t.loads)) if not up[0, i]]
        alone = [t.racks[i] for i in np.flatnonzero(spareless(t)[:racks])]
        limit, normal = self.headroom.limit_w, self.headroom.normal_w
        over = [
            {"element": t.elements[e], "over_w": float(normal[e] - limit[e])}
            for e in np.flatnonzero(normal > limit * (1.0 + 1e-9))
        ]
        return {
            "dark_racks": dark,
            "dark_loads": dark_loads,
            "single_fed": alone,
            "over_now": over,
            "further_loss": {
                "over": [
                    {"element": element, "case": case, "lacks_w": lacks}
                    for element, case, lacks in self.headroom.negative()
                    if case != "normal"
                ],
                "darkens": _darkens(t),
            },
            "caps": None if self.caps is None else self.caps.to_json(),
        }

    @property
    def safe(self) -> bool:
        """Whether nothing is dark that was not, and limits hold in every further loss."""
        t = self.headroom.topology
        up = t.compiled.up[0]
        was = (
            np.ones(len(up), dtype=np.bool_) if self.before is None else self.before.compiled.up[0]
        )
        if bool((was & ~up).any()):
            return False
        return self.headroom.ok if self.caps is None else self.caps.fits


def _darkens(topology: Topology) -> list[dict[str, Any]]:
    """Racks that each further loss would darken; losses that darken none are left out."""
    c, racks = topology.compiled, len(topology.racks)
    out = []
    for k in range(1, len(topology.case_names)):
        gone = np.flatnonzero(c.up[0, :racks] & ~c.up[k, :racks])
        if len(gone):
            names = [topology.racks[i] for i in gone]
            out.append({"case": topology.case_names[k], "racks": names})
    return out


def programme(kind: str) -> tuple[Step, ...]:
    """The steps for an element of this kind."""
    return PROGRAMMES.get(kind, PROGRAMMES["other"])


def takes_over(power: Power, element: str) -> str:
    """Who carries the load of an element while it is out, in words.

    Args:
        power: of the site; what it has in maintenance carries nothing.
        element: to be switched.
    """
    gone = {element, *power.maintenance}
    parts = []
    for name, group in power.groups.items():
        if element in group.members:
            others = [m for m in group.members if m not in gone]
            if len(others) < (group.needs or len(group.members)):
                parts.append(f"{name} is dead then")
            else:
                carry = "carry" if len(others) > 1 else "carries"
                parts.append(f"{listed(others)} {carry} for {name}")
    for name, entry in power.elements.items():
        if entry.transfer is not None and element in (
            entry.transfer.normal,
            entry.transfer.alternate,
        ):
            other = (
                entry.transfer.alternate
                if entry.transfer.normal == element
                else entry.transfer.normal
            )
            parts.append(f"{name} {'is dead then' if other in gone else f'goes to {other}'}")
    return "; ".join(parts)


def steps_json(
    element: str, kind: str, power: Power, views: Mapping[World, View]
) -> list[dict[str, Any]]:
    """Every step with the view of its world.

    Args:
        element: to be switched.
        kind: of element.
        power: of the site, with everything in maintenance that is out then.
        views: of "whole" and "without"; "either" is the worse of both.
    """
    whole, without = views["whole"].to_json(), views["without"].to_json()
    documents: dict[World, dict[str, Any]] = {
        "whole": whole,
        "without": without,
        "either": _either(whole, without),
    }
    safe: dict[World, bool] = {
        "whole": views["whole"].safe,
        "without": views["without"].safe,
        "either": views["whole"].safe and views["without"].safe,
    }
    out = []
    for n, step in enumerate(programme(kind), start=1):
        words = step.words.format(x=element)
        moved = takes_over(power, element) if step.code == "transfer" else ""
        if moved:
            words = f"{words} ({moved}.)"
        row = {"n": n, "step": step.code, "do": words, "world": step.world}
        out.append({**row, "safe": safe[step.world], **documents[step.world]})
    return out


def _either(whole: Mapping[str, Any], without: Mapping[str, Any]) -> dict[str, Any]:
    """The worse of two worlds: everything that is true in one of them."""
    names = ("dark_racks", "dark_loads", "single_fed")
    out: dict[str, Any] = {
        key: [*without[key], *(n for n in whole[key] if n not in without[key])] for key in names
    }
    out["over_now"] = _worst(whole["over_now"], without["over_now"], "over_w")
    out["further_loss"] = {
        "over": _worst(whole["further_loss"]["over"], without["further_loss"]["over"], "lacks_w"),
        "darkens": _union(whole["further_loss"]["darkens"], without["further_loss"]["darkens"]),
    }
    out["caps"] = without["caps"]
    return out


def _worst(a: list[dict[str, Any]], b: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for row in (*b, *a):
        name = str(row["element"])
        if name not in best or row[key] > best[name][key]:
            best[name] = row
    return list(best.values())


def _union(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> list[dict[str, Any]]:
    racks: dict[str, list[str]] = {}
    for row in (*b, *a):
        known = racks.setdefault(row["case"], [])
        known.extend(r for r in row["racks"] if r not in known)
    return [{"case": case, "racks": names} for case, names in racks.items()]
