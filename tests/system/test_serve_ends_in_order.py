"""`wattkeeper serve` as systemd runs it: ready, stopped, stopped again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system]

FILE = """facility: 1
site: {name: Small, timezone: UTC}
power:
  elements:
    u1: {kind: source}
  racks:
    r1: {feeds: {a: u1}, rating: 20 kW}
devices:
  m1: {profile: pdu/apc-rpdu2, address: "snmp://127.0.0.1:1", measures: {rack: r1, feed: a}}
agents: {broker: "mqtt://127.0.0.1:1"}
store: {url: "sqlite:///STORE"}
"""


@pytest.mark.timeout(120)
def test_a_second_sigterm_does_not_turn_an_orderly_end_into_a_kill(
    root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(FILE.replace("STORE", str(tmp_path / "x.db")), "utf-8")
    words = ["serve", "--config", str(file), "--port", "0", "--state", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "api.cli", *words],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
        code = None
        for _ in range(200):
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        if code is None:
            process.kill()
        assert code == 0, process.stderr.read()[-2000:] if process.stderr else ""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _soon(true: Callable[[], bool]) -> bool:
    """Whether it comes true within 20 s."""
    for _ in range(200):
        if true():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.timeout(120)
def test_a_killed_demo_leaves_no_service_behind_on_its_port(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(FILE, "utf-8")
    words = ["demo", "--config", str(file), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "api.cli", *words],
        cwd=root,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        line = next(line for line in demo.stderr if "demo: http://" in line)
        port = int(line.split("http://127.0.0.1:")[1].split()[0])
        assert _soon(lambda: _listens(port))
        demo.kill()
    assert _soon(lambda: not _listens(port)), f"port {port} is still served"
