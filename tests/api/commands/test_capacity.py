"""Capacity of a file: the report, one more server, one more rack, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from tests.controllers.capacity.halls import HALL, SPACE


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(HALL.replace("SPACE", SPACE).replace("HEAT", "400 kW"))
    return str(path)


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["capacity", *words])
    return done.exit_code, done.stdout, done.stderr


def test_the_report_as_text_and_as_one_document(file: str) -> None:
    code, text, _ = call(file)
    assert code == 0
    assert "Tightest: pdu-r01-b, loss of grid-a, 10 kW left." in text
    assert "Level busway (2): any one may fail." in text
    assert "Lots (5 % kept): row-1: 0 lots of 1 racks of 40 kW fit" in text
    code, text, _ = call(file, "--json", "--add", "5 kW", "--margin", "0 %")
    document = json.loads(text)
    assert document["lots"][0]["lots"] == 2
    assert document["conversion"] is None


def test_one_more_server_with_every_limit_of_its_own(file: str) -> None:
    words = ("--rack", "R01", "--add", "10 kW", "--units", "2", "--weight", "90 kg", "--ports", "0")
    code, text, _ = call(file, *words)
    assert code == 0
    assert text.startswith("r01 can take one more server of 10 kW. pdu-r01-b leaves 10 kW")
    assert "room kW" in text
    code, text, _ = call(file, "--rack", "r01", "--add", "11 kW", "--json")
    assert code == 1
    assert json.loads(text)["verdict"] == "no"
    code, text, _ = call(file, "--rack", "r02", "--add", "1 kW")
    assert code == 0
    assert "Not stated: space, weight, liquid ports." in text


def test_one_more_rack(file: str) -> None:
    code, text, _ = call(file, "--row", "row-1", "--add", "20 kW", "--json")
    assert code == 0
    assert json.loads(text)["verdict"] == "yes"
    code, _, _ = call(file, "--row", "row-1", "--add", "21 kW")
    assert code == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rack", "r01", "--row", "row-1"), "ask one at a time"),
        (("--like", "r01"), "--like goes with --row"),
        (("--row", "row-1", "--units", "4"), "go with --rack"),
        (("--rack", "r01", "--weight", "-5 kg"), "above zero"),
    ],
)
def test_no_part_of_a_question_is_passed_over_in_silence(
    file: str, words: tuple[str, ...], says: str
) -> None:
    code, out, err = call(file, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_what_is_wrong_is_named(file: str) -> None:
    assert "did you mean" in call(file, "--rack", "r1")[2]
    assert call(file, "--rack", "r1")[0] == 2
    assert "--row row9" in call(file, "--row", "row9")[2]
    assert call(file, "--rack", "r01", "--add", "ten")[0] == 2
    assert call(file, "--add", "0 W")[0] == 2
    assert call(file, "--row", "row-1", "--like", "r77")[0] == 2
    assert call(file + "x", "--json")[0] == 1
