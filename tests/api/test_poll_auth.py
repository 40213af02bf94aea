"""`wattkeeper poll --auth`: communities and SNMPv3 users from variables and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.commands.poll_auth import credentials_from
from drivers.credentials import Credentials

USER = {
    "kind": "snmpv3",
    "user": "keeper",
    "digest": "sha256",
    "secret": "auth-passphrase",
    "cipher": "aes128",
    "privacy_secret": "privacy-phrase",
}


def test_without_a_word_it_is_the_public_community() -> None:
    assert credentials_from(None, None) == Credentials("community", None, "public")
    assert credentials_from(None, "named") == Credentials("community", None, "named")


def test_of_two_logins_one_was_taken_without_a_word() -> None:
    with pytest.raises(ValueError, match="name one of them"):
        credentials_from("UPS", "named")


def test_a_variable_holds_a_community_or_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNMP_AUTH", "hall-7")
    assert credentials_from("SNMP_AUTH", None).secret == "hall-7"
    monkeypatch.setenv("SNMP_AUTH", json.dumps(USER))
    expected = Credentials(
        "snmpv3", "keeper", "auth-passphrase", "sha256", "aes128", "privacy-phrase"
    )
    assert credentials_from("SNMP_AUTH", None) == expected


def test_a_file_holds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"kind": "community_v1", "secret": "old"}) + "\n")
    found = credentials_from(f"file:{path}", None)
    assert (found.kind, found.secret) == ("community_v1", "old")
    path.write_text("plain\n")
    assert credentials_from(f"file:{path}", None).secret == "plain"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{not json", "is none"),
        (json.dumps({"kind": "telnet", "secret": "x"}), "kind is one of"),
        (json.dumps(USER | {"colour": "red"}), "no key 'colour'"),
        (json.dumps(USER | {"user": 7}), "user is no text"),
        (json.dumps(USER | {"secret": "short"}), "at least 8"),
        (json.dumps(USER | {"digest": "crc32"}), "no SNMPv3 digest"),
        (json.dumps(USER | {"cipher": "rot13"}), "no SNMPv3 cipher"),
        (json.dumps({"kind": "snmpv3"}), "needs a name"),
        (json.dumps({"kind": "community"}), "needs its secret"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_shown(
    text: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNMP_AUTH", text)
    with pytest.raises(ValueError, match=why) as caught:
        credentials_from("SNMP_AUTH", None)
    assert "passphrase-" not in str(caught.value)
    assert "privacy-phrase" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        credentials_from(f"file:{tmp_path / 'none'}", None)
