"""`wattkeeper import dsx`: whom the BMS says that things serve, against the file."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.commands.dsx import _words, dsx
from api.importing.dsx import compare
from drivers.dsx.metadata import METADATA, PointMeta, read_metadata
from drivers.sim.broker import EmbeddedBroker
from facility.config import Facility
from facility.loading import load_text

FILE = """
facility: 1
site: {{name: hall, timezone: UTC}}
power:
  elements:
    src: {{kind: source, rating: 1 MW}}
    row-a: {{kind: busway, fed_by: [src], rating: 400 kW}}
    row-b: {{kind: busway, fed_by: [src], rating: 400 kW}}
  racks:
    r01: {{feeds: {{a: row-a, b: row-b}}, rating: 100 kW}}
    r02: {{feeds: {{a: row-a, b: row-b}}, rating: 100 kW}}
  loads:
    cdu-1: {{feeds: {{a: row-a}}, rating: 10 kW}}
cooling:
  loops:
    loop-1:
      cdus: {{cdu-1: cdu-1}}
      racks: {{r01: 80 %, r02: 80 %}}
      design_flow: 600 L/min
      heat_capacity: 300 kW
devices:
  cdu-1: {{profile: dsx/cdu, address: "dsx:CDU-5", broker: bms, measures: {{loop: loop-1}}}}
  meter-a:
    profile: dsx/power-meter
    address: dsx:PM-A
    broker: bms
    measures: {{element: row-a}}
brokers:
  bms: {{url: "{url}"}}
"""


@cache
def facility(url: str = "mqtt://x") -> Facility:
    return load_text(FILE.format(url=url)).facility


def meta(path: str, **body: Any) -> PointMeta:
    found = read_metadata(f"{METADATA}/{path}", json.dumps(body).encode())
    assert found is not None
    return found


def hall(cdu_serves: list[str], meter_serves: list[str]) -> list[PointMeta]:
    return [
        meta("CDU/LiquidFlow/f", objectId="CDU-5", objectName="CDU 5", servesId=cdu_serves),
        meta("CDU/LiquidFlow/g", objectId="CDU-6", objectName="CDU 6", servesId=[]),
        meta("PowerMeter/ActivePower/a", objectId="PM-A", objectName="A", servesId=meter_serves),
        meta("PowerMeter/ActivePower/t", objectId="TAP", objectName="T", servesId=["R-2"]),
        meta("UPS/Status/u", associateId="PM-A"),
        meta("Rack/RackPower/1", rackLocationId="R-1", rackLocationName="R01"),
        meta("Rack/RackPower/2", rackLocationId="R-2", rackLocationName="r02"),
    ]


def test_who_serves_whom_is_followed_through_others() -> None:
    told = compare(facility(), hall(["R-1", "R-2"], ["R-1", "TAP"]))
    assert told.differences == ()
    assert told.silent == ()
    assert [u[:2] for u in told.unread] == [
        ("dsx/cdu", "CDU-6"),
        ("dsx/power-meter", "TAP"),
        ("dsx/rack", "R-1"),
        ("dsx/rack", "R-2"),
    ]


def test_what_the_file_and_the_bms_do_not_agree_on_is_said_both_ways() -> None:
    told = compare(facility(), hall(["R-1", "R-9"], []))
    assert told.silent == ("meter-a",)
    assert told.differences == ("cdu-1: serves r02 for the file, not for the BMS",)
    more = [*hall(["R-1", "R-2", "R-9"], []), meta("Rack/RackPower/9", rackLocationId="R-9")]
    assert compare(facility(), more).differences == (
        "cdu-1: serves R-9 for the BMS, not for the file",
    )


@settings(max_examples=60)
@given(
    edges=st.lists(
        st.tuples(st.sampled_from(["CDU-5", "PM-A", "a", "b"]), st.sampled_from("abR")), max_size=12
    )
)
def test_circles_of_servants_end(edges: list[tuple[str, str]]) -> None:
    points = [
        meta(f"CDU/LiquidFlow/{i}", objectId=one, objectName=one, servesId=[other, one])
        for i, (one, other) in enumerate(edges)
    ]
    compare(facility(), points)


def test_lines_to_paste_have_keys_that_a_file_takes_whatever_the_bms_calls_its_objects() -> None:
    ids = ("CDU 6", "CDU-6", "---", "17", "Kühler", "x" * 200, "a: {b}\\", "no", "12:30:00")
    points = [meta(f"CDU/LiquidFlow/{i}", objectId=each) for i, each in enumerate(ids)]
    words = _words(compare(facility(), points), "bms", len(points))
    block = words[words.index("devices:") :].partition("\nDIFFERS")[0]
    made = yaml.safe_load(block)["devices"]
    assert {entry["address"] for entry in made.values()} == {f"dsx:{each}" for each in ids}
    assert all(re.fullmatch(r"[a-z][a-z0-9\-]{0,63}", key) for key in made)


def test_a_broker_that_refuses_is_named_however_short_one_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hall.yaml"
    path.write_text(FILE.format(url="mqtt://127.0.0.1:1"))
    assert dsx(str(path), "bms", 0.3, json=False) == 1
    assert "cannot be reached" in capsys.readouterr().err


@pytest.fixture
def bms() -> Iterator[str]:
    """A broker with a BMS's retained metadata, in a thread with a loop of its own."""
    ready, ended, address = threading.Event(), threading.Event(), []

    async def serve() -> None:
        import aiomqtt

        broker = EmbeddedBroker()
        await broker.start()
        port = int(broker.address.rpartition(":")[2])
        async with aiomqtt.Client("127.0.0.1", port) as client:
            for point in hall(["R-1"], ["R-1", "R-2"]):
                rack = point.object_type == "Rack"
                keys = (
                    ("rackLocationId", "rackLocationName") if rack else ("objectId", "objectName")
                )
                body: dict[str, Any] = dict(
                    zip(keys, (point.object_id, point.object_name), strict=True)
                )
                topic = f"{METADATA}/{point.object_type}/{point.point_type}/{point.tag}"
                payload = json.dumps(body | {"servesId": list(point.serves)})
                await client.publish(topic, payload, qos=1, retain=True)
        address.append(broker.address)
        ready.set()
        await asyncio.to_thread(ended.wait)
        await broker.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10.0)
    yield address[0]
    ended.set()
    thread.join()


@pytest.mark.system
def test_the_command_says_where_file_and_bms_differ(
    bms: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.commands.dsx.QUIET_S", 0.5)
    file = tmp_path / "hall.yaml"
    file.write_text(FILE.format(url=bms))
    assert dsx(str(file), "bms", 10.0, json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["differences"] == ["cdu-1: serves r02 for the file, not for the BMS"]
    assert dsx(str(file), "bms", 10.0, json=False) == 1
    out = capsys.readouterr().out
    assert 'cdu-6: {profile: dsx/cdu, address: "dsx:CDU-6", broker: bms}  # CDU 6' in out
    assert dsx(str(file), "none", 1.0, json=False) == 2
