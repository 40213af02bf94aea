"""What the meters leave unexplained, per element, and which cord may be declared wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from controllers.base import Condition
from controllers.blocks import low_pass
from controllers.reconcile.balance import Balance, balance_of
from controllers.wording import kilowatts, listed
from facility.commands import Severity
from facility.points import FloatArray, IntArray
from facility.site import SiteModel
from facility.snapshot import Snapshot
from facility.topology import Topology

#: Meters are not read at one instant, and loads swing: residuals are means over about a minute.
TAU_S: Final = 60.0
#: A residual must stand this long before it is told, s.
STANDS_S: Final = 180.0
#: Rounding of a meter that shows hundreds of W; per meter of an equation.
ROUNDING_W: Final = 25.0


@dataclass(frozen=True, eq=False)
class ReconcileMemory:
    """Attributes: smooth: float64[B], mean residual, W; NaN: never known; at_s: last look."""

    smooth: FloatArray = field(default_factory=lambda: np.zeros(0))
    at_s: float | None = None


@dataclass(frozen=True, eq=False)
class Residuals:
    """The equations of one cycle, B of them.

    Attributes:
        reading_w: float64[M], meters; NaN: not read (never 0).
        own_w, explained_w: float64[B], W given by the element(s) and taken below.
        residual_w: float64[B], mean of own less explained; NaN where a meter is silent now.
        low_w, high_w: float64[B], what accuracies and unmeasured losses allow it to be.
    """

    balance: Balance
    reading_w: FloatArray
    own_w: FloatArray
    explained_w: FloatArray
    residual_w: FloatArray
    low_w: FloatArray
    high_w: FloatArray

    @property
    def suspect(self) -> IntArray:
        """Equations that do not add up."""
        with np.errstate(invalid="ignore"):
            wrong = (self.residual_w < self.low_w) | (self.residual_w > self.high_w)
        return np.flatnonzero(wrong)


def reconcile(
    site: SiteModel, topology: Topology, snapshot: Snapshot, memory: ReconcileMemory
) -> tuple[Residuals, ReconcileMemory]:
    """Compare every equation's two sides.

    Args:
        site: the site.
        topology: the plant as it is; a silent meter of what is dead in it reads nothing.
        snapshot: the present.
        memory: of the cycle before.
    """
    b = balance_of(site)
    rows, accuracy = len(b.members), site.facility.power.meter_accuracy
    reading = _readings(b, topology, snapshot)
    term = b.sign * reading[b.meter]
    own = _per_row(b, np.where(b.sign > 0.0, term, 0.0))
    below = _per_row(b, np.where(b.sign < 0.0, -term, 0.0))
    size = np.abs(reading[b.meter])
    doubt = _per_row(b, accuracy * size + ROUNDING_W)
    lost = _per_row(b, b.may_lose * size)
    before = memory.smooth if len(memory.smooth) == rows else np.full(rows, np.nan)
    dt_s = 0.0 if memory.at_s is None else max(snapshot.now_s - memory.at_s, 0.0)
    smooth = low_pass(before, own - below, dt_s, TAU_S)
    known = ~np.isnan(own - below)
    residuals = Residuals(
        balance=b,
        reading_w=reading,
        own_w=own,
        explained_w=below,
        residual_w=np.where(known, smooth, np.nan),
        low_w=-doubt,
        high_w=doubt + lost,
    )
    return residuals, ReconcileMemory(smooth, snapshot.now_s)


def _per_row(b: Balance, terms: FloatArray) -> FloatArray:
    """float64[B]: terms of each equation added up."""
    return np.bincount(b.row, terms, len(b.members)).astype(np.float64)


def _readings(b: Balance, topology: Topology, snapshot: Snapshot) -> FloatArray:
    """float64[M]: each meter, its parts added; NaN unless every part is GOOD."""
    parts = np.where(b.points >= 0, snapshot.good(b.points), 0.0)
    reading = np.asarray(parts.sum(axis=1), dtype=np.float64)
    dead = np.zeros(len(reading), dtype=np.bool_)
    element, feed = b.dead_element >= 0, b.dead_feed >= 0
    dead[element] = topology.compiled.dead[0][b.dead_element[element]]
    dead[feed] |= topology.dead_feeds[b.dead_feed[feed]]
    return np.where(dead & np.isnan(reading), 0.0, reading)


def _cords(r: Residuals, more: int, less: int) -> list[str]:
    """Feeds declared below `less` whose move to `more` would explain both residuals."""
    b = r.balance
    mine = b.meter[(b.row == less) & (b.sign < 0.0)]
    found = []
    for m in mine[b.dead_feed[mine] >= 0]:
        watts = float(r.reading_w[m])
        room_more = max(r.high_w[more], -r.low_w[more])
        room_less = max(r.high_w[less], -r.low_w[less])
        fits = abs(r.residual_w[more] - watts) <= room_more
        if fits and abs(r.residual_w[less] + watts) <= room_less:
            found.append(b.names[m])
    return found


def suspects(r: Residuals) -> Mapping[int, str]:
    """Equation that does not add up -> what would explain it, in a sentence."""
    out: dict[int, str] = {}
    wrong = r.suspect.tolist()
    for row in wrong:
        gives_more = bool(r.residual_w[row] > 0.0)
        hints = []
        for other in wrong:
            if bool(r.residual_w[other] > 0.0) == gives_more:
                continue
            more, less = (row, other) if gives_more else (other, row)
            cords = _cords(r, more, less)
            if cords:
                one = cords[0] if len(cords) == 1 else f"one of {listed(cords)}"
                hints.append(
                    f"{one} is declared below {_named(r, less)} and may hang on {_named(r, more)}"
                )
        if hints:
            out[row] = f"{hints[0][0].upper()}{hints[0][1:]}."
        elif gives_more:
            out[row] = "Something hangs there that the file does not know, or a meter is off."
        else:
            out[row] = "Something declared there hangs elsewhere, or a meter is off."
    return out


def _named(r: Residuals, row: int) -> str:
    return listed(r.balance.members[row])


def wiring_conditions(r: Residuals) -> list[Condition]:
    """`wiring_suspect` of every element whose meter its declared children do not explain."""
    out: list[Condition] = []
    why = suspects(r)
    for row, hint in why.items():
        names, residual_w = r.balance.members[row], float(r.residual_w[row])
        than = "more" if residual_w > 0.0 else "less"
        text = (
            f"{_named(r, row)}: {kilowatts(abs(residual_w))} {than} than the meters below "
            f"explain. {hint} Follow the cord."
        )
        out.append(
            Condition(
                "wiring_suspect",
                names[0],
                Severity.WARNING,
                text,
                on_delay_s=STANDS_S,
                about=names,
                numbers={"residual_w": residual_w},
            )
        )
    return out


def wiring_facts(r: Residuals) -> dict[str, Any]:
    """Element -> its residual; null where a meter is missing, with what is missing."""
    out: dict[str, Any] = {}
    wrong, b = set(r.suspect.tolist()), r.balance
    mute = np.flatnonzero(np.isnan(r.reading_w[b.meter]))
    silent = {int(row): b.names[m] for row, m in zip(b.row[mute], b.meter[mute], strict=True)}
    for row, names in enumerate(b.members):
        known = bool(np.isfinite(r.residual_w[row]))
        for name in names:
            out[name] = {
                "together_with": [other for other in names if other != name],
                "meter_w": _number(r.own_w[row]),
                "explained_w": _number(r.explained_w[row]),
                "residual_w": _number(r.residual_w[row]),
                "allowed_w": [float(r.low_w[row]), float(r.high_w[row])] if known else None,
                "suspect": row in wrong,
                "missing": silent.get(row),
            }
    for name, missing in b.unmetered.items():
        out[name] = {
            "together_with": [],
            "meter_w": None,
            "explained_w": None,
            "residual_w": None,
            "allowed_w": None,
            "suspect": False,
            "missing": missing,
        }
    return out


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
