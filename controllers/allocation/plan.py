"""A finished plan: caps, fallbacks, why, and what limits are worth; survives JSON unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from facility.points import FloatArray
from facility.topology.graph import BoolArray


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node.

    Attributes:
        cap_w, fallback_w: W per GPU.
        tokens_per_s: of the node at that cap; None where nobody stated or learned its curve.
        parked: held at its floor because caps just above it would buy next to nothing.
    """

    node: str
    cap_w: float
    fallback_w: float
    tokens_per_s: float | None
    parked: bool
    because: str


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """All nodes of a plan side by side; a hall has 18,000 and most readers want one column.

    Attributes:
        names: in file order; cap_w, fallback_w: float64[N], W per GPU.
        tokens_per_s: float64[N]; NaN where nobody stated or learned the curve.
        parked: bool[N]; because: per node.
    """

    names: tuple[str, ...]
    cap_w: FloatArray
    fallback_w: FloatArray
    tokens_per_s: FloatArray
    parked: BoolArray
    because: tuple[str, ...]

    @classmethod
    def of(cls, nodes: tuple[NodePlan, ...]) -> NodeColumns:
        """From nodes one by one."""
        tokens = [np.nan if n.tokens_per_s is None else n.tokens_per_s for n in nodes]
        return cls(
            tuple(n.node for n in nodes),
            np.array([n.cap_w for n in nodes], dtype=np.float64),
            np.array([n.fallback_w for n in nodes], dtype=np.float64),
            np.array(tokens, dtype=np.float64),
            np.array([n.parked for n in nodes], dtype=np.bool_),
            tuple(n.because for n in nodes),
        )

    @cached_property
    def nodes(self) -> tuple[NodePlan, ...]:
        """One by one."""
        tokens = [None if t != t else t for t in self.tokens_per_s.tolist()]
        columns = (self.names, self.cap_w.tolist(), self.fallback_w.tolist(), tokens)
        more = (self.parked.tolist(), self.because)
        return tuple(NodePlan(*row) for row in zip(*columns, *more, strict=True))

    def to_json(self) -> list[dict[str, Any]]:
        """One by one, as plain fields."""
        tokens = [None if t != t else t for t in self.tokens_per_s.tolist()]
        columns = (self.names, self.cap_w.tolist(), self.fallback_w.tolist(), tokens)
        return [
            {
                "node": node,
                "cap_w": cap_w,
                "fallback_w": fallback_w,
                "tokens_per_s": tokens_per_s,
                "parked": parked,
                "because": because,
            }
            for node, cap_w, fallback_w, tokens_per_s, parked, because in zip(
                *columns, self.parked.tolist(), self.because, strict=True
            )
        ]

    def __eq__(self, other: object) -> bool:
        """Whether every node is told the same."""
        return isinstance(other, NodeColumns) and self.nodes == other.nodes

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Price:
    """What one more kW on a binding limit is worth.

    Attributes:
        worth_per_kw: shadow price in units of the objective.
        tok_s_per_kw: tokens a second that the nodes at the margin would gain.
    """

    element: str
    case: str
    worth_per_kw: float
    tok_s_per_kw: float


@dataclass(frozen=True, slots=True)
class Missing:
    """Why nothing fits: the element and case that lack the most, kW, and what would help."""

    element: str
    case: str
    kw: float
    would_fix: str


@dataclass(frozen=True)
class Plan:
    """The answer to a `Problem`, with the digest of its inputs.

    Attributes:
        columns: per node.
        together: groups of elements that bind equally: a price there is that of one more kW on
            each of them.
    """

    digest: str
    feasible: bool
    policy: Literal["efficiency", "throughput"]
    objective: float
    tokens_per_s: float
    columns: NodeColumns = field(repr=False)
    prices: tuple[Price, ...]
    missing: Missing | None
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def nodes(self) -> tuple[NodePlan, ...]:
        """Per node, one by one."""
        return self.columns.nodes

    @cached_property
    def caps_w(self) -> dict[str, float]:
        """Node -> W per GPU."""
        return dict(zip(self.columns.names, self.columns.cap_w.tolist(), strict=True))

    @cached_property
    def fallback_w(self) -> dict[str, float]:
        """Node -> W per GPU when nobody allocates."""
        return dict(zip(self.columns.names, self.columns.fallback_w.tolist(), strict=True))

    @cached_property
    def parked(self) -> frozenset[str]:
        """Nodes held at their floor."""
        return frozenset(self.columns.names[i] for i in np.flatnonzero(self.columns.parked))

    @cached_property
    def because(self) -> dict[str, str]:
        """Node -> what set its cap."""
        return dict(zip(self.columns.names, self.columns.because, strict=True))

    def to_json(self) -> dict[str, Any]:
        """As `allocate --json` prints it, with the digest."""
        return {
            "feasible": self.feasible,
            "policy": self.policy,
            "objective": self.objective,
            "tokens_per_s": self.tokens_per_s,
            "nodes": self.columns.to_json(),
            "prices": [asdict(price) for price in self.prices],
            "together": [list(group) for group in self.together],
            "missing": None if self.missing is None else asdict(self.missing),
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such a document.
        """
        missing = document["missing"]
        return cls(
            digest=document["digest"],
            feasible=document["feasible"],
            policy=document["policy"],
            objective=document["objective"],
            tokens_per_s=document["tokens_per_s"],
            columns=NodeColumns.of(tuple(NodePlan(**node) for node in document["nodes"])),
            prices=tuple(Price(**price) for price in document["prices"]),
            missing=None if missing is None else Missing(**missing),
            together=tuple(tuple(group) for group in document.get("together", ())),
        )
