"""The one page of a loss says what is left: safe, no longer redundant, or overloaded."""

from __future__ import annotations

import numpy as np
import pytest

from controllers.alarms.watch import _left
from controllers.headroom import Headroom, study
from facility.loading import load_text
from facility.topology import Topology

ROW = """facility: 1
site: {name: Row, timezone: Europe/Berlin}
power:
  elements:
    grid-[1,2]: {kind: source}
    ups-[a,b,c]: {kind: ups, fed_by: [grid-1, grid-2], rating: 100 kW}
  racks:
    r1: {feeds: {a: ups-a, b: ups-b, c: ups-c}, rating: 300 kW}
"""


def after_a_loss(load_w: float) -> Headroom:
    topology = Topology.of(load_text(ROW).facility.power).without(["ups-a"])
    return study(topology, np.array([load_w]))


@pytest.mark.parametrize(
    ("load_w", "words"),
    [
        (80e3, "any further single loss is survivable"),
        (150e3, "redundancy is lost: ups-b lacks 50 kW after loss of ups-c"),
        (220e3, "over its limit now"),
    ],
)
def test_what_is_left_is_in_the_page(load_w: float, words: str) -> None:
    assert words in _left(after_a_loss(load_w))


def test_a_rack_on_its_last_feed_is_not_called_survivable() -> None:
    topology = Topology.of(load_text(ROW).facility.power).without(["ups-a", "ups-b"])
    said = _left(study(topology, np.array([80e3])))
    assert said == "Nothing is overloaded. 1 rack hangs on one feed: losing it darkens it."


def test_missing_kilowatts_are_rounded_up_as_in_the_top_line() -> None:
    """30.2 kW: to give back 30 kW would not be enough."""
    topology = Topology.of(load_text(ROW).facility.power).without(["ups-a"])
    assert "ups-b lacks 31 kW after loss of ups-c" in _left(study(topology, np.array([130.2e3])))
