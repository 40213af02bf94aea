"""What NetBox does not say, said by the people of the site: the rules of an import, in YAML.

```yaml
import: 1
voltage_reference: {three-phase: ll, single-phase: ln}  # how the site writes a feed's voltage
sides:                              # the first that matches decides: A or B is never guessed
  - {panel: "PNL-A*", side: a}
  - {tag: side-b, side: b}
  - {field: power_side, value: B, side: b}
draw: per_port                      # or per_device: ports of one device state the same draw
panels: {PNL-A1: {fed_by: [ups-a1], rating: 400 kW, kind: pdu}}
racks: {"r*": {overhead: 2 kW, needs: 1}}
devices: {dgx-h100: h100x8}         # NetBox device type -> node type of the facility file
```

NetBox keeps no voltage reference (its issue 8738), no rating of a panel and nothing above it, and
knows feeds as primary and redundant only.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationError

from facility.config import Name, Strict
from facility.errors import ConfigError, Problem
from facility.yamltree import dotted, parse_tree, read_text


class SideRule(Strict):
    """Which side the feeds are on that carry a tag, a custom field, or hang on a panel."""

    side: Name
    panel: str | None = None
    feed: str | None = None
    tag: str | None = None
    field: str | None = None
    value: str | None = None

    def matches(
        self, panel: str, feed: str, tags: Sequence[str], fields: Mapping[str, Any]
    ) -> bool:
        """Whether every stated part fits; patterns are shell patterns, case counts."""
        stated = (
            self.panel is None or fnmatch.fnmatchcase(panel, self.panel),
            self.feed is None or fnmatch.fnmatchcase(feed, self.feed),
            self.tag is None or self.tag in tags,
            self.field is None or str(fields.get(self.field)) == self.value,
        )
        return all(stated) and (self.panel, self.feed, self.tag, self.field) != (None,) * 4


class PanelRule(Strict):
    """What a panel is and what feeds it."""

    fed_by: tuple[Name, ...] = ()
    kind: Literal["source", "transformer", "ups", "switchboard", "pdu", "busway"] = "pdu"
    rating: str | None = None


class References(Strict):
    """Whether a feed's voltage is line to line or line to neutral."""

    three_phase: Literal["ll", "ln"] | None = Field(default=None, alias="three-phase")
    single_phase: Literal["ll", "ln"] | None = Field(default=None, alias="single-phase")


class Rules(Strict):
    """A rules file."""

    format: Literal[1] = Field(alias="import")
    voltage_reference: References = Field(default_factory=References)
    sides: tuple[SideRule, ...] = ()
    draw: Literal["per_port", "per_device"] | None = None
    panels: Mapping[str, PanelRule] = Field(default_factory=dict)
    racks: Mapping[str, Mapping[str, str | int | float]] = Field(default_factory=dict)
    devices: Mapping[str, Name] = Field(default_factory=dict)

    def side(
        self, panel: str, feed: str, tags: Sequence[str], fields: Mapping[str, Any]
    ) -> str | None:
        """The side of a feed, or None where no rule tells."""
        fitting = (rule.side for rule in self.sides if rule.matches(panel, feed, tags, fields))
        return next(fitting, None)

    def rack(self, name: str) -> dict[str, str | int | float]:
        """What the rules add to a rack; later patterns win."""
        added: dict[str, str | int | float] = {}
        for pattern, keys in self.racks.items():
            if fnmatch.fnmatchcase(name, pattern):
                added |= keys
        return added


@dataclass(frozen=True)
class RulesFile:
    """Rules and the name of their file, for faults that a rule would answer."""

    rules: Rules
    file: str


def read_rules(path: str | None) -> RulesFile:
    """The rules of a file; none where no file is named.

    Raises:
        ConfigError: every fault of the file, with line and column.
    """
    if path is None:
        return RulesFile(Rules.model_validate({"import": 1}), "rules")
    text, _ = read_text(path)
    tree, problems = parse_tree(text, path)
    try:
        rules = Rules.model_validate(tree.plain())
    except ValidationError as error:
        for fault in error.errors():
            line, column = tree.place(fault["loc"])
            problems.append(Problem(path, line, column, dotted(fault["loc"]), fault["msg"]))
        raise ConfigError(problems) from error
    if problems:
        raise ConfigError(problems)
    return RulesFile(rules, path)
