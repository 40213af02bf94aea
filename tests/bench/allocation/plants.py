"""A made hall for the allocation: two sides, each a UPS group, PDUs, busways; every node its own.

Twelve curve types, and each node's Tm, C0, k and n within ± 10 % of its type's, so that nothing
can be lumped together. Limits bind on every level: some busways, some PDUs, both UPS groups.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from facility.config import Node, Power
from facility.topology import Topology

#: Name; least, greatest, fallback and overhead of one GPU in W; tok/s, idle W, knee W, sharpness.
TYPES = (
    ("a100", 120, 400, 200, 110, 420, 75, 190, 4.0),
    ("h100", 200, 700, 350, 130, 900, 110, 300, 4.0),
    ("h100-prefill", 200, 700, 350, 130, 2600, 130, 420, 3.0),
    ("h200", 200, 700, 350, 130, 1050, 120, 320, 4.5),
    ("h200-decode", 200, 700, 350, 130, 700, 115, 210, 6.0),
    ("mi300x", 250, 750, 350, 140, 980, 140, 330, 3.5),
    ("b200", 300, 1000, 500, 150, 1900, 140, 480, 5.0),
    ("b200-decode", 300, 1000, 500, 150, 1400, 150, 340, 6.0),
    ("b300", 350, 1400, 600, 170, 2500, 180, 640, 5.0),
    ("gb200", 300, 1200, 550, 160, 2300, 165, 560, 4.5),
    ("gb300", 350, 1400, 600, 170, 2900, 185, 660, 4.0),
    ("l40s", 120, 350, 180, 60, 260, 60, 150, 2.5),
)
JITTER = 0.10
SIDES = ("a", "b")
#: Worst case of a level as a share of what its nodes would draw at their greatest caps.
UPS_SHARE, PDU_SHARE, ROW_SHARE = 0.80, (0.78, 0.95), (0.72, 1.05)


@dataclass(frozen=True)
class Made:
    """A hall: the power section as a document, its topology, and the managed nodes."""

    document: dict[str, Any]
    topology: Topology
    nodes: dict[str, Node]


def made_hall(
    racks: int, nodes: int, gpus: int, *, rows: int, pdus: int = 24, ups: int = 4, seed: int = 1
) -> Made:
    """A hall of `racks` racks of `nodes` nodes of `gpus` GPUs on `rows` pairs of busways.

    Args:
        racks: a multiple of `rows`.
        nodes: per rack.
        gpus: per node.
        rows: pairs of busways.
        pdus: per side.
        ups: members of each side's group, of which one may fail.
        seed: of the jitter.
    """
    rng = random.Random(seed)
    found: dict[str, Node] = {}
    rack_w: list[float] = []
    for r in range(racks):
        # A rack holds one kind of server; neighbours differ.
        kind = TYPES[r % len(TYPES)]
        top = 2000.0
        for n in range(nodes):
            node = _node(rng, f"r{r:04d}", gpus, kind)
            found[f"r{r:04d}-n{n:02d}"] = node
            top += node.overhead + gpus * node.max_cap * 1.05 / 0.96
        rack_w.append(top)
    document = _power(rng, rack_w, rows, pdus, ups)
    topology = Topology.of(Power.model_validate_json(json.dumps(document)))
    return Made(document, topology, found)


def _node(rng: random.Random, rack: str, gpus: int, kind: tuple[Any, ...]) -> Node:
    name, least, most, fallback, overhead, tm, c0, k, sharp = kind

    def near(value: float) -> float:
        return value * (1.0 + rng.uniform(-JITTER, JITTER))

    document = {
        "rack": rack,
        "gpus": gpus,
        "gpu": name,
        "min_cap": f"{least} W",
        "max_cap": f"{most} W",
        "floor": f"{least} W",
        "fallback": f"{fallback} W",
        "overhead": f"{overhead * gpus} W",
        "curve": {
            "tm": f"{near(tm):.3f} tok/s",
            "c0": f"{near(c0):.3f} W",
            "k": f"{near(k):.3f} W",
            "n": round(near(sharp), 4),
        },
    }
    return Node.model_validate_json(json.dumps(document))


def _power(
    rng: random.Random, rack_w: list[float], rows: int, pdus: int, ups: int
) -> dict[str, Any]:
    per_row = len(rack_w) // rows
    row_w = [sum(rack_w[i * per_row : (i + 1) * per_row]) for i in range(rows)]
    pdu_of = [i * pdus // rows for i in range(rows)]
    hall_w = sum(rack_w)
    elements: dict[str, Any] = {"utility-1": {"kind": "source"}, "utility-2": {"kind": "source"}}
    groups: dict[str, Any] = {}
    for n, side in enumerate(SIDES, start=1):
        share_w = UPS_SHARE * hall_w / 2.0 / (ups - 1)
        members = [f"ups-{side}{i + 1}" for i in range(ups)]
        for name in members:
            elements[name] = {
                "kind": "ups",
                "fed_by": [f"utility-{n}"],
                "rating": f"{share_w:.0f} W",
                "autonomy": "300 s",
            }
        groups[f"bus-{side}"] = {"members": members, "needs": ups - 1}
    for p in range(pdus):
        mine = sum(w for w, of in zip(row_w, pdu_of, strict=True) if of == p)
        limit = f"{rng.uniform(*PDU_SHARE) * mine:.0f} W"
        for side in SIDES:
            elements[f"pdu-{side}{p:02d}"] = {
                "kind": "pdu",
                "fed_by": [f"bus-{side}"],
                "rating": limit,
            }
    for row in range(rows):
        for side in SIDES:
            elements[f"row{row:03d}-{side}"] = {
                "kind": "busway",
                "fed_by": [f"pdu-{side}{pdu_of[row]:02d}"],
                "rating": f"{rng.uniform(*ROW_SHARE) * row_w[row]:.0f} W",
            }
    racks = {
        f"r{r:04d}": {
            "feeds": {side: f"row{r // per_row:03d}-{side}" for side in SIDES},
            "rating": f"{watts:.0f} W",
            "overhead": "2000 W",
        }
        for r, watts in enumerate(rack_w)
    }
    loads = {
        f"cdu-{i}": {
            "feeds": {side: f"row{i * rows // 25:03d}-{side}" for side in SIDES},
            "rating": "6 kW",
        }
        for i in range(25)
    }
    return {"elements": elements, "groups": groups, "racks": racks, "loads": loads}
