"""The facility files under docs/examples are what they say: files that can be run."""

from __future__ import annotations

import pytest

from drivers.catalog import profiles
from drivers.known import DriverKnowledge
from drivers.profile.binding import bind
from facility.checking import examine
from facility.points import PointTable
from facility.site import SiteModel
from tests.conftest import ROOT

FILES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_an_example_has_no_fault(path) -> None:
    loaded, found = examine(str(path), DriverKnowledge.shipped())
    assert found == []
    assert loaded is not None


def test_the_engines_of_the_example_count_the_tokens_of_their_nodes() -> None:
    loaded, _ = examine(str(ROOT / "docs" / "examples" / "engines.yaml"))
    assert loaded is not None
    facility = loaded.facility
    layouts = [
        layout
        for name, entry in facility.devices.items()
        for layout in bind(profiles()[entry.profile], name, entry.parameters).layouts
    ]
    site = SiteModel.of(facility, PointTable.of(layouts))
    counted = {
        (site.nodes[n], site.table.specs[i].id.device)
        for i, n in zip(site.token_points.tolist(), site.token_node.tolist(), strict=True)
        if i >= 0
    }
    assert ("r71-n1", "vllm-r71-n1") in counted
    assert {d for n, d in counted if n == "r73-n1"} == {"sglang-r73-n1-0", "sglang-r73-n1-1"}
