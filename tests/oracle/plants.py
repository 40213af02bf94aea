"""Random power sections as a person would write them, of every kind that control law 1 names."""

from __future__ import annotations

import random
from typing import Any

Plant = dict[str, Any]

#: What stands below what, top down; each layer may be left out.
LAYERS = (
    ("transformer", "switchboard"),
    ("ups",),
    ("switchboard", "switch", "pdu"),
    ("pdu", "busway", "switch"),
    ("busway", "branch", "shelf", "rack_pdu", "switch"),
)
#: Round numbers, so that ties and loads exactly at a limit happen.
ROUND_W = (1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000)


class Draw:
    """One random plant."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.elements: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def amps(self) -> dict[str, Any]:
        rng = self.rng
        volts = {"voltage_ll": "400 V"} if self.chance(0.5) else {"voltage_ln": "230 V"}
        out: dict[str, Any] = {"current": f"{rng.choice((5, 10, 16, 20, 32, 63))} A", **volts}
        if self.chance(0.25):
            out["phases"] = 1
        return out

    def one_rating(self) -> Any:
        kind = self.rng.choice(("W", "VA", "A", "odd"))
        watts = self.rng.choice(ROUND_W)
        if kind == "A":
            return self.amps()
        if kind == "odd":
            return f"{self.rng.uniform(0.5, 15.0):.3f} kW"
        return f"{watts / 1000:g} k{kind}"

    def ratings(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        count = self.rng.choices((0, 1, 2, 3), (2, 6, 2, 1))[0]
        found = [self.one_rating() for _ in range(count)]
        if count == 1 and self.chance(0.7):
            out["rating"] = found[0]
        elif count:
            out["rating"] = found
        if self.chance(0.2):
            out["continuous"] = f"{self.rng.choice((70, 80, 90, 100, 104))} %"
        if self.chance(0.2):
            out["power_factor"] = self.rng.choice((0.8, 0.9, 1.0))
        if count and self.chance(0.3):
            out["overload"] = [["110 %", "600 s"], ["125 %", "60 s"]]
        return out

    def parents(self, above: list[str], most: int) -> list[str]:
        count = min(self.rng.choices(range(1, most + 1), (6, 3, 1)[:most])[0], len(above))
        return self.rng.sample(above, count)

    def element(self, name: str, kind: str, above: list[str]) -> None:
        body: dict[str, Any] = {"kind": kind, **self.ratings()}
        if kind == "switch" and len(above) >= 2:
            normal, alternate = self.rng.sample(above, 2)
            body["transfer"] = {"normal": normal, "alternate": alternate}
        else:
            body["fed_by"] = self.parents(above, 3)
        if kind == "ups" and self.chance(0.5):
            body["autonomy"] = "300 s"
        if kind == "shelf":
            modules = self.rng.randint(2, 6)
            body |= {"modules": modules, "module_rating": f"{self.rng.choice((500, 1100))} W"}
            if self.chance(0.8):
                body["needs"] = self.rng.randint(1, modules)
        self.elements[name] = body

    def group(self, above: list[str]) -> str:
        members = self.rng.sample(above, self.rng.randint(1, min(4, len(above))))
        name = f"group-{len(self.groups) + 1}"
        self.groups[name] = {"members": members}
        if self.chance(0.7):
            self.groups[name]["needs"] = self.rng.randint(1, len(members))
        return name

    def load(self, above: list[str], *, rack: bool) -> dict[str, Any]:
        rng = self.rng
        feeds = {f: rng.choice(above) for f in "abc"[: rng.choices((1, 2, 3), (2, 8, 1))[0]]}
        body: dict[str, Any] = {"feeds": feeds, "rating": f"{rng.choice(ROUND_W) / 4:g} W"}
        if self.chance(0.3):
            body["rating"] = f"{rng.uniform(100.0, 3000.0):.2f} W"
        if self.chance(0.25):
            body["needs"] = rng.randint(1, len(feeds))
        if rack and self.chance(0.25):
            body["psu"] = "hot_spare"
        if self.chance(0.3):
            named = [f for f in feeds if self.chance(0.85)]
            body["split"] = {f: rng.choice((0.0, 0.3, 0.4, 0.6, 1.0)) for f in named}
        if self.chance(0.3):
            body["phases"] = {f: self.phases() for f in feeds if self.chance(0.8)}
        return body

    def phases(self) -> dict[str, float]:
        style = self.rng.choice(("one", "two", "all"))
        if style == "one":
            return {self.rng.choice(("L1", "L2", "L3")): 1.0}
        if style == "two":
            pair = self.rng.sample(("L1", "L2", "L3"), 2)
            return {pair[0]: 0.5, pair[1]: 0.5}
        return {"L1": 0.34, "L2": 0.36, "L3": 0.30}

    def plant(self) -> Plant:
        rng = self.rng
        nodes: list[str] = []
        for i in range(rng.randint(1, 3)):
            self.elements[f"source-{i + 1}"] = {"kind": "source", **self.ratings()}
            nodes.append(f"source-{i + 1}")
        above = list(nodes)
        for kinds in LAYERS:
            if self.chance(0.25):
                continue
            layer = []
            for _ in range(rng.randint(1, 4)):
                kind = rng.choice(kinds)
                name = f"{kind}-{len(self.elements) + 1}"
                self.element(name, kind, above)
                layer.append(name)
            if self.chance(0.4):
                layer.append(self.group(layer))
                if self.chance(0.3):
                    layer.append(self.group(layer))  # a group may feed a group
            # Mostly the layer just above feeds; sometimes anything does.
            nodes += layer
            above = layer if self.chance(0.8) else list(nodes)
        racks = {
            f"r{i + 1:02d}": self.load(above if self.chance(0.8) else nodes, rack=True)
            for i in range(rng.randint(1, 6))
        }
        loads = {
            f"cdu-{i + 1}": self.load(above, rack=False) for i in range(rng.choice((0, 1, 2, 3)))
        }
        out = rng.sample(list(self.elements), rng.choices((0, 1, 2), (6, 2, 1))[0])
        return {
            "elements": self.shuffled(),
            "groups": self.groups,
            "maintenance": out,
            "racks": racks,
            "loads": loads,
        }

    def shuffled(self) -> dict[str, Any]:
        """Elements in any order: nothing says that a file is written from the top down."""
        names = list(self.elements)
        if self.chance(0.5):
            self.rng.shuffle(names)
        return {name: self.elements[name] for name in names}

    def loop(self, plant: Plant) -> dict[str, Any] | None:
        """A liquid loop of all the plant's CDUs; None when it has none."""
        if not plant["loads"]:
            return None
        return {
            "cdus": {f"dev-{name}": name for name in plant["loads"]},
            "racks": dict.fromkeys(plant["racks"], "80 %"),
            "design_flow": f"{self.rng.choice((120, 300))} L/min",
            "flow_one_cdu_lost": f"{self.rng.choice((40, 50, 70))} %",
            "heat_capacity": f"{self.rng.choice((60, 90))} kW",
        }
