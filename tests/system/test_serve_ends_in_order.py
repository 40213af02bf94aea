"""`wattkeeper serve` as systemd runs it: ready, stopped, stopped again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
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
