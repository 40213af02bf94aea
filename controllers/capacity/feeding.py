"""Racks that have one cord only, and racks whose cords meet where they should not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from controllers.headroom import shared
from controllers.wording import listed
from facility.topology import Topology

Fault = Literal["single_fed", "same_parent", "both_on_one", "one_source"]


@dataclass(frozen=True, slots=True)
class Feeding:
    """One rack, or other load, that is not fed as two cords should feed it.

    Attributes:
        fault: one feed only; all feeds on one element; feeds that meet in an element other than a
            source, whose loss darkens it; feeds that meet in a source alone.
        elements: where they meet; the one that feeds it, for a single feed.
    """

    load: str
    fault: Fault
    elements: tuple[str, ...]

    @property
    def text(self) -> str:
        """A sentence."""
        names = listed(self.elements)
        return {
            "single_fed": f"{self.load} has one feed only, from {names}.",
            "same_parent": f"All feeds of {self.load} come from {names}.",
            "both_on_one": f"{self.load} goes dark with {names} although it has a spare feed.",
            "one_source": f"All feeds of {self.load} hang on one source, {names}.",
        }[self.fault]

    def to_json(self) -> dict[str, Any]:
        """Plain fields."""
        return {
            "load": self.load,
            "fault": self.fault,
            "elements": list(self.elements),
            "text": self.text,
        }


def wrongly_fed(topology: Topology) -> tuple[Feeding, ...]:
    """Every load that is not fed as it should be, in file order; the gravest fault of each."""
    found = []
    every = {**topology.power.racks, **topology.power.loads}
    for i, (name, load) in enumerate(every.items()):
        parents = tuple(dict.fromkeys(load.feeds.values()))
        if len(load.feeds) <= load.needs:
            if len(load.feeds) == 1:
                found.append(Feeding(name, "single_fed", parents))
            continue
        if len(parents) == 1:
            found.append(Feeding(name, "same_parent", parents))
            continue
        meet = shared(topology, i)
        if meet:
            found.append(Feeding(name, "both_on_one", tuple(meet)))
            continue
        sources = _sources(topology, i)
        if sources:
            found.append(Feeding(name, "one_source", sources))
    return tuple(found)


def _sources(topology: Topology, load: int) -> tuple[str, ...]:
    """Sources whose loss darkens a load."""
    c = topology.compiled
    if not c.up[0, load]:
        return ()
    lost = c.lost[np.flatnonzero(~c.up[:, load])]
    return tuple(topology.elements[e] for e in lost if topology.kinds[e] == "source")
