"""Whatever a user types: a plain word and the right exit code, never a traceback."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app

FILE = """facility: 1
site: {name: Small, timezone: UTC}
power:
  elements:
    u1: {kind: source}
  racks:
    r1: {feeds: {a: u1}, rating: 20 kW}
"""


def command(*words: str) -> tuple[int, str, str]:
    result = CliRunner(env={"WATTKEEPER_API_KEY": "x"}).invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "f.yaml"
    path.write_text(FILE, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "nowhere.yaml"),
        ("headroom", "nowhere.yaml"),
        ("allocate", "nowhere.yaml"),
        ("demo", "--config", "nowhere.yaml"),
        ("replay", "nowhere.rec"),
        ("release", "hall", "--url", "http://[::1"),
        ("release", "hall", "--url", "nonsense"),
        ("poll", "--target", "snmp://127.0.0.1:1"),
    ],
)
def test_a_refusal_is_one_json_document_with_the_reason(words: tuple[str, ...]) -> None:
    code, out, _ = command(*words, "--json")
    document = json.loads(out)
    assert (code, document["ok"]) == (1, False)
    assert document["problems"][0]["problem"]


@pytest.mark.parametrize(
    "loads",
    [
        b'{"racks": {"r1": {"load_w": ' + b"9" * 5000 + b"}}}",
        b"[" * 100_000,
        b"\x80",
        b'{"racks": {"r1": {"load_w": 1e308}}}',
        b'{"racks": {"r1": {"load_w": NaN}}}',
    ],
)
def test_a_loads_file_of_nonsense_is_a_fault_of_that_file(
    loads: bytes, file: str, tmp_path: Path
) -> None:
    path = tmp_path / "loads.json"
    path.write_bytes(loads)
    code, out, _ = command("headroom", file, "--loads", str(path), "--json")
    assert code == 1
    assert json.loads(out)["problems"][0]["file"] == str(path)


def test_endless_files_end(file: str) -> None:
    assert command("headroom", file, "--loads", "/dev/zero")[0] == 1
    assert command("replay", "/dev/zero")[0] == 1


def test_loads_saved_with_a_byte_order_mark_are_read(file: str, tmp_path: Path) -> None:
    path = tmp_path / "loads.json"
    path.write_bytes(b'\xef\xbb\xbf{"racks": {"r1": {"load_w": 5000}}}')
    _, out, _ = command("headroom", file, "--loads", str(path), "--json")
    assert json.loads(out)["racks"][0]["load_w"] == 5000.0


@pytest.mark.parametrize(
    "words",
    [
        ("demo", "--seed", "-1"),
        ("demo", "--port", "65536"),
        ("demo", "--port", "-1"),
        ("serve", "--config", "f", "--port", "65536"),
        ("serve", "--config", "f", "--host", ""),
        ("serve", "--config", "f", "--host", "\u00fc..x"),
        ("serve", "--config", "f", "--host", " 127.0.0.1"),
        ("demo", "--for", "1e9 d"),
        ("demo", "--scenario", "../../x"),
    ],
)
def test_arguments_out_of_range_are_wrong_usage(words: tuple[str, ...]) -> None:
    assert command(*words)[0] == 2


def test_a_demo_that_cannot_start_says_why_before_it_starts(file: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, out, _ = command("demo", "--config", file, "--port", port, "--json")
    assert (code, f"port {port}" in json.loads(out)["problems"][0]["problem"]) == (1, True)
    nowhere = str(tmp_path / "none" / "x.rec")
    for more in (("--record", nowhere), ("--record", str(tmp_path)), ("--broker", "nonsense")):
        code, out, _ = command("demo", "--config", file, "--port", "0", *more, "--json")
        assert (code, more[0] in json.loads(out)["problems"][0]["problem"]) == (1, True)


def test_a_database_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    assert command("db", "upgrade", "--url", f"sqlite:///{tmp_path}")[0] == 1
