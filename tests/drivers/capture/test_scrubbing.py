"""What identifies is replaced wherever it stands; what says which product it is stays."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.capture.scrubbing import Scrubber


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MN:AP8841 SN: 5A1304T00789 MD:01/28/2013", "MN:AP8841 SN: serial1 MD:01/28/2013"),
        ("Serial Number: QX-77/1, rev 2", "Serial Number: serial1, rev 2"),
        ("S/N=0012345", "S/N=serial1"),
        ("Asset tag #A-17", "Asset tag #serial1"),
        ("hostname: r07-pdu", "hostname: serial1"),
        ("mac 00:24:35:9b:03:f6", "mac 02:00:00:00:00:01"),
        ("mac 0024.359b.03f6 00-24-35-9B-03-F6", "mac 02:00:00:00:00:01 02:00:00:00:00:02"),
        ("at 10.1.2.3, then 10.1.2.3", "at 192.0.2.1, then 192.0.2.1"),
        ("fe80::1 and 2001:db8:0:1::9", "2001:db8::1 and 2001:db8::2"),
        ("12:34:56 uptime", "12:34:56 uptime"),
        ("pdu7.dc2.acme.com:8080", "host1.example:8080"),
        ("ask noc@acme.org", "ask somebody1@example"),
        ("Linux r07-bmc 4.9.0 #1 SMP armv7l", "Linux name1 4.9.0 #1 SMP armv7l"),
        ("id 6f9d1c1e-77aa-4c55-9d39-0a0b0c0d0e0f", "id uuid1"),
    ],
)
def test_what_looks_like_an_identifier_is_replaced(text: str, expected: str) -> None:
    assert Scrubber().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "APC Web/SNMP Management Card (MB:v4.1.0 PF:v6.4.6 PN:apc_hw05_aos_646.bin MN:AP8841)",
        "Raritan Dominion PX - Firmware Version 1.5.9-8.0",
        "Firmware 4.3.0.5, hardware v1.2.3.4, version 2.0.0.7",
        "Serial Device Server",
        "Eaton ePDU MA 0U (C20 16A 1P)20XC13:4XC19",
    ],
)
def test_what_says_which_product_it_is_stays(text: str) -> None:
    assert Scrubber().text(text) == text


def test_a_version_that_looks_like_an_address_stays_where_the_device_says_it_is_one() -> None:
    assert (
        Scrubber(keep=["6.5.0.12"]).text("AOS 6.5.0.12 at 10.0.0.9") == "AOS 6.5.0.12 at 192.0.2.1"
    )


def test_each_word_about_people_and_places_goes_but_the_product_keeps_its_name() -> None:
    scrub = Scrubber(
        ["acme-7"], keep=["Raritan PX2"], people=["Jane Doe-Miller, room Atlas, Raritan"]
    )
    assert scrub.text("Raritan PX2 of ACME-7 (jane, Atlas room)") == (
        "Raritan PX2 of name1 (name3, name2 room)"
    )


def test_one_text_has_one_placeholder_in_every_place() -> None:
    scrub = Scrubber(["pdu-7"])
    assert scrub.text("pdu-7 is PDU-7") == "name1 is name1"
    assert [scrub.name(t) for t in ("a", "b", "a", "")] == ["text1", "text2", "text1", ""]
    assert scrub.name("0x0024359b03f6") == "0x000000000001"
    assert scrub.name("00AA11BB22CC") == "020000000001"


_WORDS = st.text(string.ascii_letters + string.digits + "-_.", min_size=3, max_size=12).filter(
    lambda word: word[0].isalnum() and word[-1].isalnum()
)


@settings(max_examples=150)
@given(_WORDS, st.lists(st.text(max_size=8), max_size=4))
def test_a_known_secret_never_stays_as_a_word(secret: str, around: list[str]) -> None:
    scrub = Scrubber([secret])
    scrubbed = scrub.text(f" {secret} ".join(around))
    placeholders = {*scrub.replaced.values()}
    words = set(scrubbed.split()) - {word for p in placeholders for word in p.split()}
    assert secret.lower() not in {word.lower() for word in words}


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_text_is_scrubbed_and_scrubbing_again_changes_nothing(text: str) -> None:
    scrub = Scrubber(["acme"], people=["Jane"])
    once = scrub.text(text)
    assert scrub.text(once) == once
