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
    assert show(url) == 0
    assert "night-shift  revoked" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "role"), [("Bad!", "viewer"), ("good", "boss")])
def test_a_wrong_name_or_role_is_refused(tmp_path: Path, name: str, role: str) -> None:
    assert add(f"sqlite:///{tmp_path / 'keys.db'}", name, role) == 2
    assert not list(tmp_path.iterdir())
