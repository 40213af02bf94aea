"""`wattkeeper agent` names what is missing, and where it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.commands.agent import agent


@pytest.mark.parametrize(
    ("broker", "lines", "told"),
    [
        ("mqtts", "tls: {ca_file: GONE}", "tls.ca_file: GONE: No such file or directory"),
        ("mqtts", "tls: {cert_file: GONE}", "tls.cert_file: GONE: No such file or directory"),
        (
            "mqtt",
            "auth: {user: n01, secret: {file: GONE}}",
            "auth.secret: file GONE is not there or is empty",
        ),
        (
            "mqtt",
            "auth: {user: n01, secret: {env: WATTKEEPER_NOWHERE}}",
            "auth.secret: environment variable WATTKEEPER_NOWHERE is not set",
        ),
    ],
)
def test_a_missing_file_was_blamed_on_the_agents_own_file(
    broker: str, lines: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, file = str(tmp_path / "gone.pem"), tmp_path / "a2.yaml"
    text = f"agent: 1\nnode: n01\nbroker: {broker}://127.0.0.1:1\n{lines}\n"
    file.write_text(text.replace("GONE", gone), "utf-8")
    assert agent(str(file)) == 1
    said = capsys.readouterr().err
    assert said == f"{told.replace('GONE', gone)} (named in {file})\n"


def test_an_authority_that_is_no_certificate_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, file = tmp_path / "ca.pem", tmp_path / "a2.yaml"
    authority.write_text("no certificate", "utf-8")
    text = f"agent: 1\nnode: n01\nbroker: mqtts://127.0.0.1:1\ntls: {{ca_file: {authority}}}\n"
    file.write_text(text, "utf-8")
    assert agent(str(file)) == 1
    assert capsys.readouterr().err.startswith(f"tls.ca_file: {authority}: ")
