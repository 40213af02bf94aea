"""Which profile a device gets: never a wrong one without a word."""

from __future__ import annotations

import pytest

from drivers.catalog import profiles
from drivers.finding import Claim, Unclear, claim_of, fits, recognise
from drivers.profile import Profile
from drivers.profile.codec import Answer
from facility.points import Flaw

APC = (1, 3, 6, 1, 4, 1, 318, 1, 3, 4, 8)


def profile(name: str, **match: object) -> Profile:
    return Profile.model_validate(
        {
            "profile": name,
            "title": name,
            "source": "a test",
            "protocol": "snmp",
            "verified": "document",
            "match": match,
            "identity": {
                "firmware": [{"at": {"snmp": {"oid": "1.3.6.1.2.1.1.1.0"}}, "after": "FW"}]
            },
            "classes": {"fast": {"period": "1 s", "stale_after": "5 s"}},
            "points": [{"part": "a", "kind": "state", "at": {"snmp": {"oid": "1.3.6.1.9.1.0"}}}],
        }
    )


class Agent:
    """Answers from a table."""

    def __init__(self, **told: Answer) -> None:
        self.told = {"1.3.6.1.2.1.1.2.0": told.get("oid"), "1.3.6.1.2.1.1.1.0": told.get("descr")}
        self.told["1.3.6.1.9.5.0"] = told.get("extra")

    async def get(self, oid: tuple[int, ...]) -> Answer:
        answer = self.told.get(".".join(map(str, oid)))
        return Flaw.REFUSED if answer is None else answer


async def known_as(known: list[Profile], **told: Answer) -> str:
    claim = await claim_of(Agent(**told), known)
    assert claim is not None
    return recognise(known, claim).profile


async def test_siblings_are_told_apart_by_what_they_describe() -> None:
    oid = "1.3.6.1.4.1.2606.7"
    known = [profile("pdu", sys_object_ids=[oid], describes=["Rittal PDU"])]
    known.append(profile("lcp", sys_object_ids=[oid], describes=["Rittal LCP"]))
    assert await known_as(known, oid=oid, descr=b"Rittal LCP SN 1") == "lcp"
    with pytest.raises(Unclear, match="no profile knows"):
        await known_as(known, oid=oid, descr=b"Rittal fridge")


async def test_a_variable_tells_siblings_apart_that_describe_nothing() -> None:
    known = [
        profile("plain", sys_object_ids=["1.3.6.1.4.1.9"]),
        profile("more", sys_object_ids=["1.3.6.1.4.1.9"], answers=["1.3.6.1.9.5.0"]),
    ]
    assert await known_as(known, oid="1.3.6.1.4.1.9.1", extra=4) == "more"
    assert await known_as(known, oid="1.3.6.1.4.1.9.1") == "plain"


async def test_two_that_fit_alike_are_told_to_a_person() -> None:
    known = [profile(name, sys_object_ids=["1.3.6.1.4.1.9"]) for name in ("one", "two")]
    with pytest.raises(Unclear, match="one, two") as caught:
        await known_as(known, oid="1.3.6.1.4.1.9.1")
    assert caught.value.alike == ("one", "two")


@pytest.mark.parametrize(
    ("firmware", "name"),
    [(b"FW1.9", "old"), (b"FW2.0.4", "new"), (b"FW2.10", "new"), (b"FW3", None), (b"none", None)],
)
async def test_a_scale_that_changed_with_the_firmware_is_another_profile(
    firmware: bytes, name: str | None
) -> None:
    """Case 30: librenms#14414, #10098 and PR 18162, a divisor that depends on the firmware."""
    known = [
        profile("old", sys_object_ids=["1.3.6.1.4.1.9"], firmware={"below": "2.0"}),
        profile(
            "new", sys_object_ids=["1.3.6.1.4.1.9"], firmware={"at_least": "2.0", "below": "3"}
        ),
    ]
    if name is None:
        with pytest.raises(Unclear):
            await known_as(known, oid="1.3.6.1.4.1.9.1", descr=firmware)
    else:
        assert await known_as(known, oid="1.3.6.1.4.1.9.1", descr=firmware) == name


@pytest.mark.parametrize("oid", ["", ".0.10.43", "x", 5, b"1.3.6.1.4.1.9", Flaw.REFUSED, "1." * 99])
async def test_a_nonsense_object_identifier_knows_nobody(oid: Answer) -> None:
    with pytest.raises(Unclear):
        await known_as([profile("one", sys_object_ids=["1.3.6.1.4.1.9"])], oid=oid, descr=b"x")


async def test_a_silent_agent_claims_nothing() -> None:
    assert await claim_of(Agent(oid=Flaw.TIMEOUT, descr=Flaw.TIMEOUT), []) is None


def test_an_old_apc_is_not_read_by_the_tree_of_the_new_ones() -> None:
    old = Claim(APC, "APC Web/SNMP Management Card (MB:v4.1.0 PF:v6.8.2 MN:AP7900B HR:B2 SN: X)")
    assert recognise(profiles().values(), old).profile == "pdu/apc-rpdu"
    assert not fits(profiles()["pdu/apc-rpdu"], Claim(APC, "MN:AP8959"))


def test_no_two_shipped_profiles_say_the_same_of_whom_they_fit() -> None:
    told = [
        p.match.model_dump_json()
        for p in profiles().values()
        if p.match.sys_object_ids or p.match.describes
    ]
    assert len(told) == len(set(told))
