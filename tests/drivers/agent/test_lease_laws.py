"""The law of the lease machine, and of the parser before it, over sequences of anything."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.agent.lease import (
    DEADLINE_S,
    LowerTo,
    Restore,
    SetCap,
    Standing,
    State,
    Verdict,
    boot,
    hear,
    tick,
)
from drivers.agent.protocol import (
    BadMessage,
    CapMessage,
    Header,
    LeaseMessage,
    Message,
    ReleaseMessage,
    command_bytes,
    parse_command,
)

NONCE = "00000000deadbeef"
OWNERS = st.sampled_from(["c1", "c2"])
HEADERS = st.builds(
    Header,
    owner=OWNERS,
    epoch=st.integers(1, 4),
    sequence=st.integers(0, 6),
    nonce=st.just(NONCE),
)
WATTS = st.floats(200.0, 700.0)
LEASES = st.builds(
    LeaseMessage,
    header=HEADERS,
    ttl_s=st.floats(1.0, 60.0),
    hold_s=st.sampled_from([0.0, 5.0, 600.0]),
    spread_s=st.sampled_from([0.0, 30.0]),
    fallback_w=st.none() | WATTS,
)
CAPS = st.builds(CapMessage, header=HEADERS, cap_w=WATTS, deadline_s=st.floats(0.1, 60.0))
RELEASES = st.builds(ReleaseMessage, header=HEADERS, deadline_s=st.floats(0.1, 60.0))
MESSAGES: st.SearchStrategy[Message] = st.one_of(LEASES, CAPS, CAPS, RELEASES)


@dataclass(frozen=True)
class Step:
    """Time passes, then a message comes that quotes a nonce of some age, or there is a restart."""

    after_s: float
    message: Message | None
    nonce_age_s: float | None
    restart: bool
    rebooted: bool
    chance: float


STEPS = st.lists(
    st.builds(
        Step,
        after_s=st.floats(0.0, 20.0) | st.floats(0.0, 900.0),
        message=st.none() | MESSAGES,
        nonce_age_s=st.none() | st.floats(0.0, 3.0) | st.floats(0.0, 70.0),
        restart=st.booleans(),
        rebooted=st.booleans(),
        chance=st.floats(0.0, 1.0),
    ),
    max_size=25,
)


def applied(limit_w: float, prior_w: float, verdict: Verdict) -> float:
    """The limit after a verdict, as the agent's writer leaves it."""
    if isinstance(verdict.action, SetCap):
        return verdict.action.watts
    if isinstance(verdict.action, LowerTo):
        return min(limit_w, verdict.action.watts)
    return prior_w if isinstance(verdict.action, Restore) else limit_w


@settings(max_examples=400)
@given(steps=STEPS, fallback_w=st.none() | WATTS)
def test_without_a_valid_lease_no_sequence_of_messages_raises_a_cap(
    steps: list[Step], fallback_w: float | None
) -> None:
    standing, now_s, limit_w = Standing(fallback_w=fallback_w), 1000.0, 700.0
    for step in steps:
        now_s += step.after_s
        before_w = limit_w
        if step.restart:
            verdict = boot(standing, now_s, rebooted=step.rebooted, chance=step.chance)
            standing, limit_w = verdict.standing, applied(limit_w, 700.0, verdict)
            assert limit_w <= before_w
            assert standing.state is not State.LEASED
        verdict = tick(standing, now_s, step.chance)
        standing, limit_w = verdict.standing, applied(limit_w, 700.0, verdict)
        assert limit_w <= before_w
        if step.message is None:
            continue
        leased = standing.state is State.LEASED and now_s < standing.lease_until_s
        holder = (standing.owner, standing.epoch)
        made_s = None if step.nonce_age_s is None else now_s - step.nonce_age_s
        verdict = hear(standing, step.message, now_s, made_s)
        after_w = applied(limit_w, 700.0, verdict)
        if after_w > limit_w:
            head = step.message.header
            assert leased
            assert (head.owner, head.epoch) == holder
            assert step.nonce_age_s is not None
            assert step.nonce_age_s <= DEADLINE_S + 1e-6
            assert head.sequence > standing.sequence
        if verdict.refusal is not None:
            assert verdict.standing == standing
            assert verdict.action is None
        assert verdict.standing.epoch >= standing.epoch
        standing, limit_w = verdict.standing, after_w


@given(lease=LEASES, cap_w=WATTS, ages=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_lease_and_a_newer_command_are_always_obeyed(
    lease: LeaseMessage, cap_w: float, ages: tuple[float, float]
) -> None:
    """The other half of the law: it must not hold by refusing everything."""
    first = hear(Standing(), replace(lease, ttl_s=15.0), 100.0, 100.0 - ages[0])
    assert first.refusal is None
    head = replace(lease.header, sequence=lease.header.sequence + 1)
    second = hear(first.standing, CapMessage(head, cap_w, 2.0), 101.0, 101.0 - ages[1])
    assert second.action == SetCap(cap_w)


def test_a_lease_ends_counted_from_the_nonce_not_from_its_arrival() -> None:
    lease = LeaseMessage(Header("c1", 1, 1, NONCE), 15.0, 600.0, 0.0, None)
    standing = hear(Standing(), lease, 110.0, 100.0).standing
    assert standing.lease_until_s == 115.0
    assert hear(Standing(), lease, 116.0, 100.0).refusal == "too_old"


def test_a_renewal_that_was_overtaken_does_not_shorten_the_lease() -> None:
    lease = LeaseMessage(Header("c1", 1, 1, NONCE), 15.0, 600.0, 0.0, None)
    standing = hear(Standing(), lease, 110.0, 110.0).standing
    assert hear(standing, lease, 111.0, 105.0).standing.lease_until_s == 125.0


def test_the_delay_before_the_fallback_is_inside_the_spread() -> None:
    held = Standing(
        state=State.LEASED, owner="c1", epoch=1, lease_until_s=10.0, commanded_w=600.0,
        fallback_w=350.0, spread_s=100.0,
    )  # fmt: skip
    assert tick(held, 10.0, 0.25).standing.move_at_s == 10.0 + 600.0 + 25.0


@given(message=MESSAGES)
def test_a_message_survives_the_wire(message: Message) -> None:
    assert parse_command(command_bytes(message)) == message


@settings(max_examples=300)
@given(payload=st.binary(max_size=300))
def test_random_bytes_are_refused_and_never_crash(payload: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_command(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = ("v", "type", "owner", "epoch", "sequence", "nonce", "cap_w", "deadline_s")


@settings(max_examples=300)
@given(key=st.sampled_from(KEYS), value=JSON)
def test_one_wrong_value_spoils_a_command_or_is_a_right_one(key: str, value: object) -> None:
    body = json.loads(command_bytes(CapMessage(Header("c1", 1, 1, NONCE), 500.0, 2.0)))
    body[key] = value
    try:
        message = parse_command(json.dumps(body).encode())
    except BadMessage:
        return
    assert isinstance(message, CapMessage)
    assert 1.0 <= message.cap_w <= 10_000.0
    assert message.header.epoch >= 0


BASE = {
    "v": 1, "type": "cap", "owner": "c1", "epoch": 1, "sequence": 1, "nonce": NONCE,
    "cap_w": 500.0, "deadline_s": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cap_w": True}, "cap_w"),
        ({"cap_w": "500"}, "cap_w"),
        ({"cap_w": 0}, "cap_w"),
        ({"cap_w": -1}, "cap_w"),
        ({"cap_w": 1e300}, "cap_w"),
        ({"cap_w": None}, "cap_w"),
        ({"epoch": 1.0}, "epoch"),
        ({"epoch": -1}, "epoch"),
        ({"sequence": 2**60}, "sequence"),
        ({"owner": ""}, "owner"),
        ({"owner": "a b"}, "owner"),
        ({"nonce": "XYZ"}, "nonce"),
        ({"type": "explode"}, "type"),
        ({"extra": 1}, "extra"),
        ({"deadline_s": 0}, "deadline_s"),
    ],
)
def test_what_a_command_may_not_say(change: dict[str, object], words: str) -> None:
    with pytest.raises(BadMessage, match=words) as caught:
        parse_command(json.dumps(BASE | change).encode())
    assert caught.value.refusal == "bad_message"


def test_another_version_is_refused_as_such() -> None:
    with pytest.raises(BadMessage) as caught:
        parse_command(json.dumps(BASE | {"v": 2}).encode())
    assert caught.value.refusal == "bad_version"
    assert caught.value.header == Header("c1", 1, 1, NONCE)
    assert caught.value.kind == "cap"


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(BASE).replace("500.0", "NaN").encode(),
        json.dumps(BASE).replace("500.0", "Infinity").encode(),
        json.dumps(BASE).replace("500.0", "1e999").encode(),
        json.dumps(BASE)[:-1].encode() + b', "cap_w": 600}',
        b"[" * 4096,
        b'{"v": 1}' + b" " * 5000,
        b'{"v": ' + b"9" * 4000 + b"}",
    ],
)
def test_json_that_is_no_json_twice_said_too_deep_or_too_long(payload: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_command(payload)
