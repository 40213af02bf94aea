"""Of a split that is no longer measured each element counts at least what it may carry."""

from __future__ import annotations

import json

import numpy as np
import pytest

from controllers.loads import _doubt
from facility.config import Power
from facility.topology import Shares, Topology
from tests.oracle.plants import Draw


@pytest.mark.parametrize("seed", range(7000, 7050))
def test_no_element_carries_less_in_any_case_once_a_split_is_in_doubt(seed: int) -> None:
    draw = Draw(seed)
    topology = Topology.of(Power.model_validate_json(json.dumps(draw.plant())))
    rng = np.random.default_rng(seed)
    load_w = rng.uniform(0.0, 1e4, len(topology.loads))
    split = rng.choice([0.0, 0.1, 1.0, 1.5, 9.0], len(topology.feeds))
    total = np.bincount(topology.feed_load, split, len(topology.loads))[topology.feed_load]
    split = np.where(total > 0.0, split / np.where(total > 0.0, total, 1.0), np.nan)
    measured = np.where(np.isnan(split), topology.split, split)
    doubt = _doubt(topology, split)[topology.feed_load]
    before = Shares.of(topology, measured).loads_w(load_w)
    after = Shares.of(topology, np.where(np.isnan(split), topology.split, doubt)).loads_w(load_w)
    unknown = Shares.of(topology, np.where(np.isnan(split), topology.split, np.nan)).loads_w(load_w)
    assert np.all(after >= before - 1e-6)
    assert np.all(after >= unknown - 1e-6)
