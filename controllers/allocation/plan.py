"""A finished plan: caps, fallbacks, why, and what limits are worth; survives JSON unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal


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
        together: groups of elements that bind equally: a price there is that of one more kW on
            each of them.
    """

    digest: str
    feasible: bool
    policy: Literal["efficiency", "throughput"]
    objective: float
    tokens_per_s: float
    nodes: tuple[NodePlan, ...]
    prices: tuple[Price, ...]
    missing: Missing | None
    together: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def caps_w(self) -> dict[str, float]:
        """Node -> W per GPU."""
        return {node.node: node.cap_w for node in self.nodes}

    @cached_property
    def fallback_w(self) -> dict[str, float]:
        """Node -> W per GPU when nobody allocates."""
        return {node.node: node.fallback_w for node in self.nodes}

    @cached_property
    def parked(self) -> frozenset[str]:
        """Nodes held at their floor."""
        return frozenset(node.node for node in self.nodes if node.parked)

    @cached_property
    def because(self) -> dict[str, str]:
        """Node -> what set its cap."""
        return {node.node: node.because for node in self.nodes}

    def to_json(self) -> dict[str, Any]:
        """As `allocate --json` prints it, with the digest."""
        return {
            "feasible": self.feasible,
            "policy": self.policy,
            "objective": self.objective,
            "tokens_per_s": self.tokens_per_s,
            "nodes": [asdict(node) for node in self.nodes],
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
            nodes=tuple(NodePlan(**node) for node in document["nodes"]),
            prices=tuple(Price(**price) for price in document["prices"]),
            missing=None if missing is None else Missing(**missing),
            together=tuple(tuple(group) for group in document.get("together", ())),
        )
