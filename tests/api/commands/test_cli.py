"""What the command line says of itself."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from api.cli import app


def test_the_program_did_not_say_its_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"wattkeeper {version('wattkeeper')}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["db"], "API keys"),
        (["headroom"], "JSON, see README"),
        (["agent"], "The agent's file."),
    ],
)
def test_help_left_out_what_a_newcomer_looks_for(command: list[str], words: str) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert words in " ".join(result.output.split())
