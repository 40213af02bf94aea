"""Halls that use the same elements: their shares must fit together in every case."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from api.commands.check import run
from controllers.headroom import study
from facility.loading import Loaded, load_text
from facility.sharing import sharing_problems
from facility.topology import Topology

HALL = """
facility: 1
site: {name: NAME, timezone: UTC}
power:
  elements:
    grid-a: {kind: source}
    grid-b: {kind: source}
    ups-a: {kind: ups, fed_by: [grid-a], rating: 400 kW, SHARE}
    ups-b: {kind: ups, fed_by: [grid-b], rating: 400 kW, SHARE}
    row-NAME-a: {kind: busway, fed_by: [ups-a], rating: 300 kW}
    row-NAME-b: {kind: busway, fed_by: [ups-b], rating: 300 kW}
  racks:
    NAME-r01: {feeds: {a: row-NAME-a, b: row-NAME-b}, rating: 100 kW}
"""


def text(name: str, share: str) -> str:
    return HALL.replace("NAME", name).replace("SHARE", share).replace(", }", "}")


def hall(name: str, share: str) -> Loaded:
    return load_text(text(name, share), f"{name}.yaml")


def told(loaded: list[Loaded]) -> list[str]:
    return [str(p) for p in sharing_problems(loaded)]


def test_a_share_is_the_limit_of_this_hall() -> None:
    for share, limit_w in (("share: 40 %", 160e3), ("share: 150 kW", 150e3), ("", 400e3)):
        topology = Topology.of(hall("x", share).facility.power)
        at = topology.element_index["ups-a"]
        assert topology.limit_w[at] == limit_w
        assert topology.metered_limit_w[at] == pytest.approx(400e3)
    topology = Topology.of(hall("x", "share: 20 %").facility.power)
    answer = study(topology, np.array([100e3]))
    assert answer.binding == ("ups-a", "loss of grid-b", -20e3)


def test_shares_that_fit_are_no_problem() -> None:
    assert told([hall("x", "share: 60 %"), hall("z", "share: 160 kW")]) == []


def test_shares_beyond_the_limit_are_refused_in_every_file_that_takes_one() -> None:
    found = told([hall("x", "share: 60 %"), hall("z", "share: 170 kW")])
    assert len(found) == 4
    assert found[0].startswith("x.yaml:8:")
    assert "power.elements.ups-a.share" in found[0]
    assert "the halls' shares of 'ups-a' make 410 kW, 10 kW more than its limit" in found[0]
    assert found[1].startswith("z.yaml:8:")


def test_one_hall_that_takes_all_is_told_so() -> None:
    found = told([hall("x", ""), hall("z", "share: 50 %")])
    assert len(found) == 2
    assert "x.yaml:8:" in found[0]
    assert "'ups-a' is used by z.yaml too, and this file takes all of it" in found[0]
    assert "share: 50 %" in found[0]


def test_one_element_has_one_rating() -> None:
    other = load_text(text("z", "share: 40 %").replace("400 kW", "500 kW"), "z.yaml")
    found = told([hall("x", "share: 40 %"), other])
    assert "'ups-a' is a ups of 500 kW here and a ups of 400 kW in x.yaml" in found[0]


@pytest.mark.parametrize(("share", "why"), [("120 %", "all of it"), ("0 %", "zero"), ("7", "7")])
def test_a_share_that_cannot_be_is_refused(share: str, why: str) -> None:
    with pytest.raises(Exception, match=why):
        hall("x", f"share: {share}")


def test_the_command_checks_files_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, share in (("x", "share: 60 %"), ("z", "share: 50 %")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text(name, share))
        paths.append(str(path))
    assert run(paths[:1], json=False) == 0
    assert run(paths, json=True) == 1
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not document["ok"]
    assert {Path(p["file"]).name for p in document["problems"]} == {"x.yaml", "z.yaml"}
    assert all(p["line"] > 0 and p["column"] > 0 for p in document["problems"])
