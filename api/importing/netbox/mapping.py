"""From NetBox's records to entries of a facility file; pure, and it guesses nothing.

| NetBox | facility file |
|---|---|
| power panel | element of the kind that the rules say (`pdu`), fed by what the rules say |
| power feed, active | `branch` with amps, phases, and `continuous` = max_utilization |
| inlet of a device with outlets | `rack_pdu`, rated at its maximum draw where stated |
| rack with such cords | rack; `rating` = the draws of what stands in it, else the rules' |
| outlets' feed legs A, B, C | the rack's `phases`, where every cord in use states leg and draw |
| devices of a type that the rules name | nodes |

A feed that is planned, offline or failed is no cord: a rack with one such feed is single-fed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from api.importing.entries import Entry, Value, name_of
from api.importing.netbox.records import Device, Feed, Panel, Port, Rack, Records
from api.importing.rules import RulesFile
from facility.errors import ConfigError, Problem

_LEGS: Final = {"A": "L1", "B": "L2", "C": "L3"}
_PHASES: Final = {"single-phase": 1, "three-phase": 3}


@dataclass(frozen=True)
class Mapped:
    """What NetBox says of a site, and what people should know of it."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Cord:
    """One way of power into a rack: the element it hangs on, the inlet if a PDU is between."""

    side: str
    element: str
    three_phase: bool
    inlet: Port | None


def entries_of(records: Records, rules: RulesFile) -> Mapped:
    """Everything that NetBox knows of a site's power, as entries.

    Raises:
        ConfigError: everything that is contradictory, or that NetBox does not say and no rule.
    """
    mapping = _Mapping(records, rules)
    mapping.feeds()
    mapping.panels()
    mapping.racks()
    mapping.nodes()
    if mapping.problems:
        raise ConfigError(mapping.problems)
    return Mapped(tuple(mapping.entries.values()), tuple(mapping.notes))


class _Mapping:
    def __init__(self, records: Records, rules: RulesFile) -> None:
        self.records, self.rules, self.rules_file = records, rules.rules, rules.file
        self.source = f"netbox {records.instance}"
        self.entries: dict[tuple[tuple[str, ...], str], Entry] = {}
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.cords: dict[int, list[_Cord]] = defaultdict(list)  # rack id -> its cords
        self.rack_names: dict[int, str] = {}  # rack id -> its name in the file
        self.used_panels: dict[int, str] = {}  # panel id -> element
        self.ports_of: dict[int, list[Port]] = defaultdict(list)
        for port in records.ports.values():
            self.ports_of[port.device].append(port)
        self.inlets = {outlet.port for outlet in records.outlets.values() if outlet.port}
        self.pdus = {outlet.device for outlet in records.outlets.values()}

    # ---- feeds and rack PDUs -------------------------------------------------------------------

    def feeds(self) -> None:
        for feed in self.records.feeds.values():
            what = f"power-feed {feed.id} {feed.panel.name} {feed.name}"
            if feed.status != "active":
                self.notes.append(f"{what} is {feed.status}: no cord hangs on it")
                continue
            racks = {port.device: self._rack_of(port.device) for port in self._ports(feed)}
            ids = {rack for rack in racks.values() if rack is not None}
            if feed.rack is not None:
                ids.add(feed.rack.id)
            strange = sorted(ids - self.records.racks.keys())
            if strange:
                self._ask(what, f"is at rack {strange[0]}, which the site does not have")
            elif not ids:
                self.notes.append(f"{what} is at no rack, by assignment or by cable: left out")
            elif len(ids) > 1:
                names = " and ".join(sorted(self.records.racks[i].name for i in ids))
                self._ask(what, f"is at the racks {names}; a feed supplies one")
            else:
                self._feed(feed, what, ids.pop())

    def _ports(self, feed: Feed) -> list[Port]:
        return [self.records.ports[i] for i in feed.ports if i in self.records.ports]

    def _rack_of(self, device: int) -> int | None:
        known = self.records.devices.get(device)
        return known.rack.id if known is not None and known.rack is not None else None

    def _feed(self, feed: Feed, what: str, rack: int) -> None:
        panel = self._panel_name(feed.panel.id, feed.panel.name)
        side = self.rules.side(feed.panel.name, feed.name, feed.tags, feed.fields)
        if side is None:
            self._ask(what, "is on a side that no rule tells", "sides: [{panel: …, side: a}]")
        rating = self._amps(feed, what)
        name = self._named(what, feed.panel.name, feed.name)
        if side is None or rating is None or name is None or panel is None:
            return
        body: dict[str, Value] = {
            "kind": "branch",
            "fed_by": [panel],
            "rating": rating,
            "continuous": f"{feed.max_utilization} %",
        }
        self._add(("power", "elements"), name, body, f"power-feed {feed.id}")
        three_phase = feed.phase == "three-phase"
        inlets = [port for port in self._ports(feed) if port.id in self.inlets]
        for port in inlets:
            pdu = self._rack_pdu(port, name)
            if pdu is not None:
                self.cords[rack].append(_Cord(side, pdu, three_phase, port))
        if not inlets:
            self.cords[rack].append(_Cord(side, name, three_phase, None))

    def _amps(self, feed: Feed, what: str) -> dict[str, Value] | None:
        phases = _PHASES.get(feed.phase)
        faults = []
        if phases is None:
            faults.append(f"has the phase {feed.phase!r}")
        if feed.supply not in ("ac", "dc"):
            faults.append(f"has the supply {feed.supply!r}")
        if feed.voltage == 0 or (feed.voltage < 0 and feed.supply != "dc"):
            faults.append(f"has {feed.voltage} V")
        if feed.amperage < 1:
            faults.append(f"has {feed.amperage} A")
        if not 1 <= feed.max_utilization <= 100:
            faults.append(f"may be used to {feed.max_utilization} %")
        for fault in faults:
            self._ask(what, fault)
        references = self.rules.voltage_reference
        reference = references.three_phase if phases == 3 else references.single_phase
        if reference is None and phases is not None:
            self._ask(
                what,
                f"does not say whether its {feed.voltage} V are line to line or to neutral",
                f"voltage_reference: {{{feed.phase}: ll}} or ln",
            )
        if faults or reference is None or phases is None:
            return None
        return {
            "current": f"{feed.amperage} A",
            f"voltage_{reference}": f"{abs(feed.voltage)} V",
            "phases": phases,
        }

    def _rack_pdu(self, port: Port, feed: str) -> str | None:
        device = self.records.devices.get(port.device)
        what = f"power-port {port.id} {port.name}"
        if device is None:
            self._ask(what, f"belongs to device {port.device}, which the site does not have")
            return None
        several = sum(other.id in self.inlets for other in self.ports_of[device.id]) > 1
        name = self._named(what, *([device.name, port.name] if several else [device.name]))
        if name is None:
            return None
        body: dict[str, Value] = {"kind": "rack_pdu", "fed_by": [feed]}
        if port.maximum_draw:
            body["rating"] = f"{port.maximum_draw} W"
        self._add(("power", "elements"), name, body, f"power-port {port.id}")
        return name

    # ---- panels --------------------------------------------------------------------------------

    def _panel_name(self, panel: int, name: str) -> str | None:
        if panel not in self.used_panels:
            made = self._named(f"power-panel {panel} {name}", name)
            if made is None:
                return None
            self.used_panels[panel] = made
        return self.used_panels[panel]

    def panels(self) -> None:
        for panel in self.records.panels.values():
            if panel.id in self.used_panels:
                self._panel(panel, self.used_panels[panel.id])

    def _panel(self, panel: Panel, name: str) -> None:
        what = f"power-panel {panel.id} {panel.name}"
        rule = self.rules.panels.get(panel.name)
        if rule is None or (rule.kind != "source" and not rule.fed_by):
            self._ask(
                what,
                "is fed by something that NetBox does not know",
                f"panels: {{{panel.name}: {{fed_by: [ups-a1]}}}}",
            )
            return
        body: dict[str, Value] = {"kind": rule.kind}
        if rule.fed_by:
            body["fed_by"] = list(rule.fed_by)
        if rule.rating is None:
            self.notes.append(f"{what} has no rating, here or in the rules: it limits nothing")
        else:
            body["rating"] = rule.rating
        self._add(("power", "elements"), name, body, f"power-panel {panel.id}")

    # ---- racks and nodes -----------------------------------------------------------------------

    def racks(self) -> None:
        for rack in self.records.racks.values():
            cords = self.cords.get(rack.id)
            what = f"rack {rack.id} {rack.name}"
            name = self._named(what, rack.name)
            if not cords:
                self.notes.append(f"{what} has no active feed: left out")
            elif name is not None:
                self.rack_names[rack.id] = name
                self._rack(rack, what, name, cords)

    def _rack(self, rack: Rack, what: str, name: str, cords: list[_Cord]) -> None:
        added = self.rules.rack(rack.name)
        keyed = dict(_keys(cords))
        if len(keyed) > len({cord.side for cord in cords}) and "needs" not in added:
            self._ask(
                what,
                f"has {len(keyed)} cords; how many it needs to stay up is not known",
                f"racks: {{{rack.name}: {{needs: 2}}}}",
            )
        body: dict[str, Value] = {"feeds": {key: cord.element for key, cord in keyed.items()}}
        if "rating" not in added:
            rating = self._draw(rack, what)
            if rating is not None:
                body["rating"] = f"{rating} W"
        phases = self._phases(keyed)
        if phases:
            body["phases"] = phases
        self._add(("power", "racks"), name, {**body, **added}, f"rack {rack.id}")

    def _equipment(self, rack: int) -> list[Device]:
        return [
            device
            for device in self.records.devices.values()
            if device.rack is not None
            and device.rack.id == rack
            and device.id not in self.pdus
            and self.ports_of[device.id]
        ]

    def _draw(self, rack: Rack, what: str) -> int | None:
        """W of everything in a rack; a draw that nobody states is asked for, never 0."""
        total = 0
        for device in self._equipment(rack.id):
            draws = [port.maximum_draw for port in self.ports_of[device.id]]
            stated = [draw for draw in draws if draw is not None]
            if len(stated) < len(draws):
                self._ask(
                    what,
                    f"holds {device.name}, of which not every port states a maximum draw",
                    f"racks: {{{rack.name}: {{rating: 32 kW}}}}",
                )
                return None
            if len(stated) > 1 and self.rules.draw is None:
                self._ask(
                    what,
                    f"holds {device.name}; do its {len(stated)} ports draw that each, or together?",
                    "draw: per_port or per_device",
                )
                return None
            total += max(stated) if self.rules.draw == "per_device" else sum(stated)
        if total == 0:
            self._ask(what, "has no stated draw", f"racks: {{{rack.name}: {{rating: 32 kW}}}}")
            return None
        return total

    def _phases(self, keyed: dict[str, _Cord]) -> dict[str, Value]:
        phases: dict[str, Value] = {}
        for key, cord in keyed.items():
            shares = self._legs(cord) if cord.three_phase and cord.inlet is not None else None
            if shares is not None:
                phases[key] = shares
        return phases

    def _legs(self, cord: _Cord) -> dict[str, Value] | None:
        """Share of a cord's draw on each phase; None unless every cable in use states both."""
        watts = dict.fromkeys(_LEGS.values(), 0.0)
        outlets = self.records.outlets
        for port in self.records.ports.values():
            for outlet in (outlets[i] for i in port.outlets if i in outlets):
                if cord.inlet is None or outlet.port != cord.inlet.id:
                    continue
                if outlet.leg not in _LEGS or port.maximum_draw is None:
                    return None
                watts[_LEGS[outlet.leg]] += port.maximum_draw
        total = sum(watts.values())
        if total <= 0.0:
            return None
        first, second = (round(watts[leg] / total, 4) for leg in ("L1", "L2"))
        return {"L1": first, "L2": second, "L3": round(1.0 - first - second, 4)}

    def nodes(self) -> None:
        for device in self.records.devices.values():
            kind = self.rules.devices.get(device.type)
            if kind is None:
                continue
            what = f"device {device.id} {device.name}"
            name, rack = self._named(what, device.name), device.rack
            if rack is None or rack.id not in self.cords:
                self.notes.append(f"{what} stands in no rack with a feed: left out")
            elif name is not None and rack.id in self.rack_names:
                body: dict[str, Value] = {"type": kind, "rack": self.rack_names[rack.id]}
                self._add(("nodes",), name, body, f"device {device.id}")

    # ---- saying --------------------------------------------------------------------------------

    def _ask(self, what: str, words: str, rule: str | None = None) -> None:
        hint = None if rule is None else f"say it in {self.rules_file}: {rule}"
        self.problems.append(Problem(self.source, 0, 0, what, words, hint))

    def _named(self, what: str, *parts: str) -> str | None:
        try:
            return name_of(*parts)
        except ValueError as error:
            self._ask(what, str(error))
            return None

    def _add(
        self, section: tuple[str, ...], name: str, body: dict[str, Value], identity: str
    ) -> None:
        there = self.entries.get((section, name))
        if there is not None:
            self._ask(identity, f"and {there.identity} are both called {name}")
        self.entries[section, name] = Entry(section, name, body, identity, self.source)


def _keys(cords: list[_Cord]) -> Iterator[tuple[str, _Cord]]:
    """Feed names of a rack: the side, numbered where a side has several cords."""
    by_side: dict[str, list[_Cord]] = defaultdict(list)
    for cord in sorted(cords, key=lambda cord: cord.side):
        by_side[cord.side].append(cord)
    for side, own in by_side.items():
        for i, cord in enumerate(own, start=1):
            yield side if len(own) == 1 else f"{side}{i}", cord
