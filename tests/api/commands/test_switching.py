"""A statement is verified without a service; asking one that is not there says so."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from api.commands.switching import ask, verify
from api.service.statement import BadKey, Signer, new_key, signed_by


@pytest.fixture
def signer() -> Signer:
    return Signer.of_text(new_key())


def test_a_statement_is_verified_with_the_public_key_alone(
    signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = signer.sign({"id": "s1", "answer": "yes", "valid_until": "2026-12-04T02:00:00Z"})
    file = tmp_path / "statement.json"
    file.write_text(json.dumps(document, indent=2))
    assert verify(str(file), signer.public_text, json=False) == 0
    assert "yes, valid until 2026-12-04" in capsys.readouterr().out
    document["statement"]["answer"] = "no"
    file.write_text(json.dumps(document))
    assert verify(str(file), signer.public_text, json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["signed"], found["id"]) == (False, None)
    other = Signer.of_text(new_key())
    assert verify(str(file), other.public_text, json=False) == 1
    assert "another key" in capsys.readouterr().err


@pytest.mark.parametrize("junk", ["", "[1]", "{", '{"statement": {}}', "[" * 50_000])
def test_a_file_that_holds_no_statement_is_refused(
    signer: Signer, tmp_path: Path, junk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "junk"
    file.write_text(junk)
    assert verify(str(file), signer.public_text, json=False) == 1
    assert capsys.readouterr().err


def test_keys_that_are_none_are_refused_without_being_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(str(tmp_path), "no key", json=False) == 2
    assert verify(str(tmp_path), base64.b64encode(b"short").decode(), json=False) == 2
    with pytest.raises(BadKey) as refused:
        Signer.of_text("my secret")
    assert "my secret" not in str(refused.value)


def test_the_same_statement_has_one_canonical_form(signer: Signer) -> None:
    one = signer.sign({"b": [1, 2.5, None], "a": "°C"})
    two = signer.sign({"a": "°C", "b": [1, 2.5, None]})
    assert one["signature"] == two["signature"]
    assert signed_by(json.loads(json.dumps(one)), signer.public) is None


def test_a_service_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WATTKEEPER_API_KEY", raising=False)
    assert ask("ups-a2", None, "2h", "http://127.0.0.1:9", json=False) == 2
    monkeypatch.setenv("WATTKEEPER_API_KEY", "wk.x.y")
    assert ask("ups-a2", None, "a while", "http://127.0.0.1:9", json=False) == 2
    assert ask("ups-a2", None, "2h", "http://127.0.0.1:9", json=False) == 1
    assert "does not answer" in capsys.readouterr().err
