"""What is broken in the hall at one moment, as the plant feels it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Disturbance:
    """Faults of the plant itself; those of instruments and programs are elsewhere.

    Attributes:
        elements: electrical elements lost.
        pumps: (CDU device, pump number from 1) that do not turn.
        cdus: CDUs that stand still.
        stuck: CDUs whose valve does not move.
        leaks: racks with an open hose.
    """

    elements: frozenset[str] = frozenset()
    pumps: frozenset[tuple[str, int]] = frozenset()
    cdus: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    leaks: frozenset[str] = frozenset()


NOTHING = Disturbance()


@dataclass(frozen=True, slots=True)
class Outside:
    """Surroundings at one moment: outdoor dry bulb and rise of its dew point over normal."""

    ambient_c: float
    dew_point_c: float
    dew_rise_k: float = 0.0
