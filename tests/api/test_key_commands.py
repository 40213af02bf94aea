"""`wattkeeper db key`: a key is shown once, listed by name, and said to be revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.commands.keys import add, revoke, show


def test_a_key_is_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    assert add(url, "night-shift", "operator") == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("wk.night-shift.")
    assert show(url) == 0
    listed = capsys.readouterr().out
    assert "night-shift" in listed
    assert "operator" in listed
    assert key.rsplit(".", 1)[1] not in listed
    assert revoke(url, 1) == 0
    assert capsys.readouterr().out == "revoked key 1 (night-shift, operator)\n"
    assert show(url) == 0
    assert "night-shift  revoked" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "role"), [("Bad!", "viewer"), ("good", "boss")])
def test_a_wrong_name_or_role_is_refused(tmp_path: Path, name: str, role: str) -> None:
    assert add(f"sqlite:///{tmp_path / 'keys.db'}", name, role) == 2
    assert not list(tmp_path.iterdir())


def test_revoking_a_key_that_is_not_there_was_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    assert revoke(url, 9) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("no key 9;")
    add(url, "old", "viewer")
    assert revoke(url, 1) == 0
    capsys.readouterr()
    assert revoke(url, 1) == 1
    assert "key 1 (old, viewer) was revoked before" in capsys.readouterr().err


def test_a_wrong_role_did_not_say_which_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(f"sqlite:///{tmp_path / 'keys.db'}", "good", "boss") == 2
    assert capsys.readouterr().err == "no role 'boss'; roles are viewer, operator, engineer\n"
