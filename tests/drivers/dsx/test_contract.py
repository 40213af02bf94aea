"""The shipped profiles against the Exchange's own AsyncAPI document, where it is at hand."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from drivers.catalog import profiles
from drivers.dsx.metadata import METADATA, UNIT_WORDS, factors, read_metadata
from drivers.profile import DsxWhere
from facility.kinds import KINDS, Nature

NAMES = ("dsx/cdu", "dsx/rack", "dsx/power-meter", "dsx/sensor")


@cache
def document() -> dict[str, Any]:
    """The AsyncAPI document; skips the test without it."""
    named = os.environ.get("WATTKEEPER_CAPTURES")
    file = Path(named or "").parent / "contracts" / "dsx" / "bms.yaml"
    if named is None or not file.is_file():
        pytest.skip("WATTKEEPER_CAPTURES does not lie beside the contracts")
    found: dict[str, Any] = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    return found


def point_types(object_type: str) -> set[str]:
    """What the document lets an object of this type have."""
    wanted = f"{METADATA}/{object_type}/"
    for channel in document()["channels"].values():
        if channel["address"].startswith(wanted):
            return set(channel["parameters"]["pointType"]["enum"])
    return set()


def places() -> list[tuple[str, DsxWhere]]:
    """Every place of the shipped profiles, with the kind of its point."""
    found = []
    for name in NAMES:
        for entry in profiles()[name].points:
            assert entry.at.dsx is not None
            found.append((entry.kind, entry.at.dsx))
    return found


def test_every_point_of_the_profiles_is_one_of_the_exchange() -> None:
    for _, where in places():
        assert where.point in point_types(where.object), where


def test_every_unit_that_the_document_fixes_is_known_and_measures_its_point() -> None:
    fields = document()["components"]["schemas"]
    for kind, where in places():
        schema = fields[f"{where.point}Fields"]
        for unit in schema["properties"].get("engUnit", {}).get("enum", ()):
            assert "".join(unit.split()).casefold() in UNIT_WORDS
            assert factors(unit, KINDS[kind]) is not None


def test_states_of_the_document_are_the_codes_of_the_profiles() -> None:
    fields = document()["components"]["schemas"]
    for kind, where in places():
        examples = fields[f"{where.point}Fields"]["properties"].get("stateText", {}).get("examples")
        if not examples:
            assert KINDS[kind].nature is not Nature.STATE
            continue
        assert {s["text"]: s["value"] for s in examples[0]} == dict(where.texts)


def test_metadata_made_from_the_document_is_read() -> None:
    """One message of each point type of each object type: required keys, first of each choice."""
    made = 0
    for channel in document()["channels"].values():
        if not channel["address"].startswith(METADATA):
            continue
        object_type = channel["address"].split("/")[4]
        for point_type in channel["parameters"]["pointType"]["enum"]:
            rack = object_type == "Rack"
            prefix = "rackLocation" if rack else "object"
            body = {
                "objectType": object_type,
                "pointType": point_type,
                f"{prefix}Id": "x-1",
                f"{prefix}Name": "X 1",
                "servesId": ["y"],
            }
            topic = f"{METADATA}/{object_type}/{point_type}/site/x-1"
            meta = read_metadata(topic, json.dumps(body).encode())
            assert meta is not None
            assert meta.value_topic == f"BMS/v1/PUB/Value/{object_type}/{point_type}/site/x-1"
            made += 1
    assert made > 200
