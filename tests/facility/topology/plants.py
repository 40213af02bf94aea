"""Random plants for property tests: two to four layers, groups, switches, batteries."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Plant = dict[str, Any]


@st.composite
def plants(draw: st.DrawFn, racks: int = 3) -> Plant:
    elements: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    nodes: list[str] = []

    def rating() -> dict[str, str]:
        watts = draw(st.one_of(st.none(), st.integers(100, 3000)))
        return {} if watts is None else {"rating": f"{watts} W"}

    for i in range(draw(st.integers(1, 2))):
        elements[f"s{i}"] = {"kind": "source", **rating()}
        nodes.append(f"s{i}")
    for i in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(["ups", "pdu", "switch", "group"]))
        parents = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3, unique=True))
        name = f"{kind}{i}"
        if kind == "group":
            groups[name] = {"members": parents}
            if draw(st.booleans()):
                groups[name]["needs"] = draw(st.integers(1, len(parents)))
        elif kind == "switch" and len(parents) >= 2:
            transfer = {"normal": parents[0], "alternate": parents[1]}
            elements[name] = {"kind": "switch", "transfer": transfer, **rating()}
        else:
            elements[name] = {"kind": kind, "fed_by": parents, **rating()}
            if kind == "ups" and draw(st.booleans()):
                elements[name]["autonomy"] = "300 s"
        nodes.append(name)

    def load() -> dict[str, Any]:
        feeds = {f: draw(st.sampled_from(nodes)) for f in "abc"[: draw(st.integers(1, 3))]}
        out: dict[str, Any] = {"feeds": feeds, "rating": f"{draw(st.integers(1, 900))} W"}
        out["needs"] = draw(st.integers(1, len(feeds)))
        out["psu"] = draw(st.sampled_from(["balanced", "balanced", "hot_spare"]))
        if draw(st.booleans()):
            out["split"] = {f: draw(st.sampled_from([0.0, 0.3, 1.0, 2.0])) for f in feeds}
        return out

    gone = draw(st.lists(st.sampled_from(sorted(elements)), max_size=1))
    return {
        "elements": elements,
        "groups": groups,
        "maintenance": gone,
        "racks": {f"r{i}": load() for i in range(draw(st.integers(1, racks)))},
        "loads": {f"l{i}": load() for i in range(draw(st.integers(0, 1)))},
    }


def nameplates(plant: Plant) -> dict[str, float]:
    return {
        name: float(load["rating"].split()[0])
        for name, load in {**plant["racks"], **plant["loads"]}.items()
    }
