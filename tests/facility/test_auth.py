"""Logins of a facility file: SNMP communities and SNMPv3 users, each fault at its place."""

from __future__ import annotations

from typing import get_args

import pytest

from api.service.secrets import SecretMissing
from api.service.wiring import credentials_of
from drivers.credentials import CIPHERS, DIGESTS, Credentials
from facility.checking import check
from facility.config import AuthConfig
from facility.errors import ConfigError
from facility.loading import load_text
from tests.facility.test_checking import GOOD, KNOWN

V3 = "kind: snmpv3, user: keeper, digest: sha256, secret: {env: A}"
FULL = f"{V3}, cipher: aes128, privacy_secret: {{env: P}}"
LINE = GOOD.count("\n") + 3


def text_of(entry: str) -> str:
    return f"{GOOD}auth:\n  ups:\n    {{{entry}}}\n"


def faults(entry: str, text: str = "") -> list[tuple[int, str, str]]:
    """Line, path and problem of each fault of a file with this login."""
    try:
        problems = check(load_text(text or text_of(entry), "f.yaml"), KNOWN)
    except ConfigError as error:
        problems = list(error.problems)
    return [(p.line, p.path, p.problem) for p in problems]


@pytest.mark.parametrize(
    "entry",
    [
        "secret: {env: A}",
        "kind: community_v1, secret: {credential: a}",
        "kind: password, user: u, secret: {env: A}",
        "kind: snmpv3, user: keeper",
        V3,
        f"{V3}, context: rack",
        FULL,
    ],
)
def test_every_kind_of_login_is_taken(entry: str) -> None:
    assert not faults(entry)


@pytest.mark.parametrize(
    ("entry", "path", "why"),
    [
        ("kind: community", "auth.ups.secret", "exactly one of env, file, credential"),
        ("secret: {env: A, file: b}", "auth.ups.secret", "exactly one of"),
        ("secret: {env: A}, digest: md5", "auth.ups", "need kind: snmpv3"),
        ("kind: snmpv3, digest: md5, secret: {env: A}", "auth.ups", "needs a user"),
        ("kind: snmpv3, user: u, secret: {env: A}", "auth.ups", "needs a digest"),
        ("kind: snmpv3, user: u, digest: md5", "auth.ups.secret", "exactly one of"),
        (f"{V3}, cipher: aes128", "auth.ups", "need each other"),
        (f"{V3}, privacy_secret: {{env: P}}", "auth.ups", "need each other"),
        (f"{V3}, cipher: aes128, privacy_secret: {{}}", "auth.ups.privacy_secret", "exactly one"),
        (f"{V3}, cipher: rot13, privacy_secret: {{env: P}}", "auth.ups.cipher", "aes128"),
        ("kind: snmpv4, user: u", "auth.ups.kind", "snmpv3"),
    ],
)
def test_a_login_that_cannot_be_is_named_at_its_line(entry: str, path: str, why: str) -> None:
    found = faults(entry)
    assert [(line, place) for line, place, _ in found] == [(LINE, path)], found
    assert why in found[0][2]


def test_a_password_for_an_snmp_device_is_refused() -> None:
    text = text_of("kind: password, user: u, secret: {env: A}").replace(
        'address: "snmp://10.0.0.1"', 'address: "snmp://10.0.0.1", auth: ups'
    )
    assert [(path, why) for _, path, why in faults("", text)] == [
        ("devices.meter-a.auth", "'ups' is a password: SNMP has none")
    ]


def test_a_user_of_snmpv3_for_a_broker_is_refused() -> None:
    text = text_of("kind: snmpv3, user: u") + (
        'brokers: {bms: {url: "mqtt://10.2.0.5", auth: ups}}\n'
    )
    assert [(path, why) for _, path, why in faults("", text)] == [
        ("brokers.bms.auth", "'ups' is an SNMPv3 user: only SNMP knows those")
    ]


def test_the_file_and_the_drivers_know_the_same_digests_and_ciphers() -> None:
    fields = AuthConfig.model_fields
    assert get_args(get_args(fields["digest"].annotation)[0]) == DIGESTS
    assert get_args(get_args(fields["cipher"].annotation)[0]) == CIPHERS


def test_an_snmpv3_user_gets_both_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    facility = load_text(text_of(FULL)).facility
    monkeypatch.setenv("A", "auth-passphrase")
    with pytest.raises(SecretMissing, match="P is not set"):
        credentials_of(facility, None)
    monkeypatch.setenv("P", "short")
    with pytest.raises(ValueError, match=r"auth ups: privacy_secret: .* at least 8"):
        credentials_of(facility, None)
    monkeypatch.setenv("P", "privacy-phrase")
    user = credentials_of(facility, None)["ups"]
    assert user == Credentials(
        "snmpv3", "keeper", "auth-passphrase", "sha256", "aes128", "privacy-phrase"
    )
    assert "phrase" not in repr(user)


def test_a_user_without_a_digest_needs_no_secret() -> None:
    facility = load_text(text_of("kind: snmpv3, user: keeper")).facility
    assert credentials_of(facility, None)["ups"] == Credentials("snmpv3", "keeper", "")
