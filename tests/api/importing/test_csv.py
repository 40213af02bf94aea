from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.importing.tables import read_tables
from facility.errors import ConfigError
from facility.loading import load

ELEMENTS = """name,kind,fed_by,rating,rating.current,rating.voltage_ll,autonomy,overload
utility,source,,500 kW,,,,
ups-a,ups,utility,60 kVA|54 kW,,,300 s,110 % for 600 s|125 % for 60 s
ups-b,ups,utility,60 kVA|54 kW,,,300 s,
row-a,busway,ups-a,,100 A,415 V,,
row-b,busway,ups-b,,100 A,415 V,,
"""
RACKS = """name,feeds.a,feeds.b,rating,overhead,split.a,split.b
r01,row-a,row-b,18 kW,1 kW,0.6,0.4
101,row-a,row-b,9 kW,,,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "elements.csv").write_text(ELEMENTS)
    (tables / "racks.csv").write_text(RACKS)
    return tables


def run(folder: Path, file: Path, *words: str) -> tuple[int, str, str]:
    new = ["--name", "Row 7: yes", "--timezone", "Europe/Berlin"]
    result = CliRunner().invoke(app, ["import", "csv", str(folder), str(file), *new, *words])
    return result.exit_code, result.stdout, result.stderr


def test_tables_become_a_facility_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    assert run(folder, file, "--write")[0] == 0
    facility = load(str(file))
    assert facility.site.name == "Row 7: yes"
    assert facility.power.elements["ups-a"].rating == ("60 kVA", "54 kW")
    assert facility.power.elements["ups-a"].overload == ((1.1, 600.0), (1.25, 60.0))
    assert facility.power.racks["r01"].split == {"a": 0.6, "b": 0.4}
    assert facility.power.racks["101"].overhead == 0.0


def test_the_diff_comes_first_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    code, out, err = run(folder, file)
    assert code == 0
    assert "+    r01: {feeds: {a: row-a, b: row-b}" in out
    assert "--write" in err
    assert not file.exists()


def test_a_second_import_changes_nothing(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    run(folder, file, "--write")
    before = file.read_bytes()
    code, out, _ = run(folder, file, "--write")
    assert (code, out) == (0, "")
    assert file.read_bytes() == before


def test_what_people_wrote_stays_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    run(folder, file, "--write")
    hand = file.read_text().replace("site:\n", "# ours: ask Kim\nsite:\n")
    hand = hand.replace(
        "  racks:\n", "  racks:\n    r99: {feeds: {a: row-a}, rating: 1 kW}  # hand\n"
    )
    file.write_text(hand)
    (folder / "racks.csv").write_text(RACKS.replace("18 kW", "20 kW"))
    assert run(folder, file, "--write")[0] == 0
    assert file.read_text() == hand.replace("18 kW", "20 kW")


def test_what_is_gone_from_a_table_stays_until_it_is_pruned(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    run(folder, file, "--write")
    (folder / "racks.csv").write_text(RACKS.replace("101,row-a,row-b,9 kW,,,\n", ""))
    code, out, err = run(folder, file, "--write")
    assert code == 0
    assert "101 is gone from the source; it stays" in err
    assert "# orphaned 101" in out
    assert "101" in load(str(file)).power.racks
    assert run(folder, file)[1] == ""
    run(folder, file, "--write", "--prune")
    assert "101" not in load(str(file)).power.racks


def test_a_fault_is_named_in_the_table_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    (folder / "racks.csv").write_text(RACKS.replace("row-b,18 kW", "row-c,18"))
    code, _, err = run(folder, file, "--write")
    assert code == 1
    assert "racks.csv:2:1: power.racks.r01.rating" in err
    assert not file.exists()


def test_a_cord_on_nothing_is_named_in_the_table(folder: Path, tmp_path: Path) -> None:
    (folder / "racks.csv").write_text(RACKS.replace("row-b,18 kW", "row-c,18 kW"))
    code, _, err = run(folder, tmp_path / "hall.yaml", "--write")
    assert code == 1
    assert "racks.csv:2:1" in err
    assert "row-c" in err


def test_a_section_in_braces_is_refused(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "hall.yaml"
    file.write_text(
        "facility: 1\nsite: {name: x, timezone: UTC}\npower: {elements: {}, racks: {}}\n"
    )
    code, _, err = run(folder, file, "--write")
    assert code == 1
    assert "hall.yaml:3:1: power: is written in braces" in err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("kind,rating\n", "racks.csv:1:1: needs a column 'name'"),
        (
            "name,rating,rating\nr1,1 kW,2 kW\n",
            "racks.csv:1:3: rating: column rating stands here twice",
        ),
        ("name,rating\nr1\n", "racks.csv:2:1: 1 cells under 2 columns"),
        ("name,rating\nr1,1 kW\n\nr1,2 kW\n", "racks.csv:4:1: name: r1 stands in line 2 already"),
        ("name,rating\nr 1,1 kW\n", "racks.csv:2:1: name: 'r 1' is no name"),
        ("name,needs\nr1,1_0\n", "racks.csv:2:2: needs: '1_0' is no number"),
        ("name,needs\nr1,nan\n", "racks.csv:2:2: needs: 'nan' is no number"),
        ("name,needs\nr1," + "9" * 5000 + "\n", "racks.csv:2:2: needs: '9999"),
        ("name,needs\nr1,two\n", "racks.csv:2:2: needs: 'two' is no number"),
        ('name,rating\nr1,"1 kW\n', "racks.csv:2:1: is no CSV"),
        ("name,rating,rating.current\nr1,1 kW,3 A\n", "this row states rating as well"),
    ],
)
def test_a_wrong_table_names_the_place(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "racks.csv").write_text(table)
    with pytest.raises(ConfigError) as refused:
        read_tables(tmp_path)
    assert said in str(refused.value)


def test_a_table_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "racks.csv").write_bytes(b"name,rating\nr\xff,1 kW\n")
    with pytest.raises(ConfigError, match=r"racks.csv:2:1: is not UTF-8"):
        read_tables(tmp_path)


def test_a_table_with_semicolons_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "racks.csv").write_text("\ufeffname;feeds.a;rating\nr1;row-a;1 kW\n", "utf-8")
    (entry,) = read_tables(tmp_path)
    assert entry.body == {"feeds": {"a": "row-a"}, "rating": "1 kW"}


def test_space_that_is_stated_in_numbers_is_read_as_numbers(folder: Path, tmp_path: Path) -> None:
    """Units and ports came as text, and every table that stated them was refused."""
    (folder / "racks.csv").write_text(
        "name,feeds.a,feeds.b,rating,space.units,space.units_used,space.weight,space.ports\n"
        "r01,row-a,row-b,18 kW,48,40,900 kg,8\n"
    )
    file = tmp_path / "hall.yaml"
    assert run(folder, file, "--write") == (0, ANY, ANY)
    space = load(str(file)).power.racks["r01"].space
    assert space is not None
    assert (space.units, space.units_used, space.weight, space.ports) == (48, 40, 900.0, 8)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("last", [True, False])
def test_the_line_ends_of_another_system_stay(
    folder: Path, tmp_path: Path, end: str, last: bool
) -> None:
    """Every line of a file from Windows was changed, in a diff that showed none of it."""
    file = tmp_path / "hall.yaml"
    own = f"facility: 1{end}site: {{name: Lab, timezone: UTC}}  # ours{end if last else ''}"
    file.write_bytes(own.encode())
    assert run(folder, file, "--write")[0] == 0
    raw = file.read_bytes()
    assert raw.startswith(own.encode())
    assert raw.count(b"\n") == raw.count(end.encode())
    assert load(str(file)).power.racks["r01"].rating == 18_000.0
    assert run(folder, file, "--write")[2].endswith("says all of this already\n")
    assert file.read_bytes() == raw


def test_a_site_name_of_any_script_begins_a_file_that_can_be_read(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "hall.yaml"
    name = 'Halle 7 \u673a\u623f \U0001f50c "a\\b" \u2028'
    words = ["import", "csv", str(folder), str(file), "--name", name, "--timezone", "UTC"]
    assert CliRunner().invoke(app, [*words, "--write"]).exit_code == 0
    assert load(str(file)).site.name == name


def test_a_file_that_is_a_link_stays_a_link(folder: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "hall.yaml"
    real.write_text("facility: 1\nsite: {name: Lab, timezone: UTC}\n")
    link.symlink_to(real)
    assert run(folder, link, "--write")[0] == 0
    assert link.is_symlink()
    assert "r01" in real.read_text()


def test_a_table_larger_than_any_hall_is_refused_and_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "racks.csv").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ConfigError, match=r"racks.csv:0:0: is larger than 8388608 bytes"):
        read_tables(tmp_path)
