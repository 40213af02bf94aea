"""docs/agent-protocol.schema.json says what agents and controllers really send, and no more."""

from __future__ import annotations

import asyncio
import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from drivers.agent.protocol import (
    OFFLINE,
    ONLINE,
    BadMessage,
    CapMessage,
    Header,
    LeaseMessage,
    Message,
    PowerOffMessage,
    ReleaseMessage,
    command_bytes,
    kind_of,
    parse_command,
)
from drivers.agent.report import Status, status_bytes
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time
from tests.drivers.agent.test_reports import STATUSES

FILE = Path(__file__).parents[3] / "docs" / "agent-protocol.schema.json"
SCHEMA: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
HEADER = Header("hall-1", 7, 9, "0123456789abcdef")


def check(kind: str, body: Any) -> None:
    """Judge one message by its definition."""
    Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}).validate(body)


@cache
def heard() -> dict[str, list[bytes]]:
    """What agent and controller said on a bus, from the first lease to a release and after."""

    async def work() -> dict[str, list[bytes]]:
        gpus = Gpus.of(2, limit_w=600.0)
        gpus.cards[1].hidden_limit = True
        rig = await Rig.start(gpus, fallback_w=None)
        found: dict[str, list[bytes]] = {}
        for word in ("status", "ack", "command", "availability"):
            found[word] = []

            def keep(_t: str, payload: bytes, _r: bool, of: list[bytes] = found[word]) -> None:
                of.append(payload)

            rig.bus.subscribe(f"wk/n01/{word}", keep)
        await asyncio.sleep(1.1)
        await rig.device.renew("hall-1", 7)
        await asyncio.sleep(0.1)
        await rig.device.write(rig.command(400.0, 1, 7))
        await rig.device.write(rig.command(900.0, 2, 7))
        await rig.device.write(rig.command(500.0, 2, 7))
        rig.device.set_fallback(300.0)
        await rig.device.renew("hall-1", 7)
        await rig.bus.publish("wk/n01/command", command_bytes(CapMessage(HEADER, 500.0, 2.0)))
        await rig.bus.publish(
            "wk/n01/command",
            command_bytes(LeaseMessage(HEADER, 15.0, 600.0, 0.0, None)).replace(b'"v":1', b'"v":2'),
        )
        gpus.cards[0].fault = "gpu_lost"
        await asyncio.sleep(2.1)
        await rig.device.write(rig.command(500.0, 5, 7))
        await rig.device.release()
        await asyncio.sleep(1.1)
        await rig.stop()
        await asyncio.sleep(0.1)
        return found

    return in_virtual_time(work)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("kind", "least"), [("status", 5), ("ack", 6), ("command", 8)])
def test_what_they_say_is_what_the_schema_says(kind: str, least: int) -> None:
    messages = heard()[kind]
    assert len(messages) >= least
    for payload in messages:
        body = json.loads(payload)
        if body["v"] == 2:  # sent so that the agent refuses it
            with pytest.raises(ValidationError):
                check(kind, body)
            continue
        check(kind, body)
        Draft202012Validator(SCHEMA).validate(body)


def test_they_said_every_kind_of_thing() -> None:
    codes = {json.loads(payload)["code"] for payload in heard()["ack"]}
    assert codes >= {"applied", "clamped", "stale_sequence", "unknown_nonce", "bad_version"}
    kinds = {json.loads(payload)["type"] for payload in heard()["command"]}
    assert kinds == {"lease", "cap", "release"}


def test_no_key_is_said_that_the_schema_does_not_explain() -> None:
    for kind in ("status", "ack"):
        told = SCHEMA["$defs"][kind]["properties"]
        gpu = SCHEMA["$defs"][f"gpu_{kind}"]["properties"]
        for payload in heard()[kind]:
            body = json.loads(payload)
            assert list(body) == list(told)
            assert all(set(one) == set(gpu) for one in body["gpus"])


def test_availability_is_one_of_two_words() -> None:
    assert heard()["availability"][-1] == OFFLINE
    for word in (ONLINE, OFFLINE):
        check("availability", word.decode())
    with pytest.raises(ValidationError):
        check("availability", "asleep")


@given(status=STATUSES)
def test_every_status_that_can_be_made_fits(status: Status) -> None:
    check("status", json.loads(status_bytes(status)))


MESSAGES: list[Message] = [
    LeaseMessage(HEADER, 15.0, 600.0, 30.0, 350.0),
    LeaseMessage(HEADER, 15.0, 600.0, 30.0, None),
    CapMessage(HEADER, 520.0, 2.0),
    ReleaseMessage(HEADER, 2.0),
    PowerOffMessage(HEADER, 2.0),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_command_without_one_of_its_keys_or_with_one_more_is_none(message: Message) -> None:
    kind = kind_of(message)
    whole = json.loads(command_bytes(message))
    check(kind, whole)
    for key in whole:
        less = {k: v for k, v in whole.items() if k != key}
        if key == "fallback_w":
            check(kind, less)
            continue
        with pytest.raises(ValidationError):
            check(kind, less)
    with pytest.raises(ValidationError):
        check(kind, whole | {"later": 1})


ODD = st.sampled_from(
    [None, True, "", "400", "x y", -1, 0, 0.05, 1.5, 70.5, 10_001, 2**54, 1e30, [], {}]
)


@given(message=st.sampled_from(MESSAGES), data=st.data())
def test_schema_and_agent_refuse_the_same_commands(message: Message, data: st.DataObject) -> None:
    body = json.loads(command_bytes(message))
    key = data.draw(st.sampled_from(sorted(body)))
    body[key] = data.draw(ODD)
    try:
        parse_command(json.dumps(body).encode())
        taken = True
    except BadMessage:
        taken = False
    if taken:
        check("command", body)
    else:
        with pytest.raises(ValidationError):
            check("command", body)


CHANGES: list[tuple[str, tuple[str | int, ...], object]] = [
    ("status", ("v",), 2),
    ("status", ("state",), "asleep"),
    ("status", ("nonce",), "not hex"),
    ("status", ("sequence",), 0),
    ("status", ("node",), None),
    ("status", ("unsaved",), 0),
    ("status", ("monotonic_s",), "12"),
    ("status", ("lease", "epoch"), None),
    ("status", ("gpus",), None),
    ("status", ("gpus", 0, "power_w"), "500 W"),
    ("status", ("gpus", 0, "prior_from"), "guessed"),
    ("status", ("gpus", 0, "fault"), "tired"),
    ("ack", ("code",), "maybe"),
    ("ack", ("sequence",), 1.5),
    ("ack", ("detail",), None),
    ("ack", ("gpus", 0, "limit_w"), True),
]


@pytest.mark.parametrize(("kind", "path", "value"), CHANGES)
def test_a_changed_message_is_rejected(
    kind: str, path: tuple[str | int, ...], value: object
) -> None:
    bodies = [json.loads(payload) for payload in heard()[kind]]
    body = next(b for b in bodies if b["gpus"] and b.get("lease", True))
    check(kind, body)
    changed = copy.deepcopy(body)
    place = changed
    for step in path[:-1]:
        place = place[step]
    assert path[-1] in place or isinstance(path[-1], int)
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        check(kind, changed)
    del place[path[-1]]
    with pytest.raises(ValidationError):
        check(kind, changed)
