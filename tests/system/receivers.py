"""Real VictoriaMetrics and Prometheus, started on loopback for a test."""

from __future__ import annotations

import abc
import json
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from facility.clock import SystemClock

FOR_EVER = "100y"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Receiver(abc.ABC):
    """One program with one folder, started and ended as often as wanted."""

    program = ""

    def __init__(self, folder: Path) -> None:
        if shutil.which(self.program) is None:
            pytest.skip(f"{self.program} is not installed")
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @abc.abstractmethod
    def command(self) -> list[str]: ...

    @abc.abstractmethod
    def ready(self) -> str: ...

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log
            )
        clock = SystemClock()
        until_s = clock.monotonic_s() + 60.0
        while clock.monotonic_s() < until_s and self._process.poll() is None:
            try:
                self.ask(self.ready())
            except (OSError, urllib.error.URLError):
                with pytest.raises(subprocess.TimeoutExpired):
                    self._process.wait(0.05)
                continue
            return
        pytest.fail(f"{self.program} did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def ask(self, path: str, **query: str) -> bytes:
        text = urllib.parse.urlencode(query)
        with urllib.request.urlopen(f"{self.url}{path}?{text}", timeout=20) as reply:
            body: bytes = reply.read()
            return body

    @abc.abstractmethod
    def raw(self, name: str) -> dict[str, list[tuple[int, float]]]:
        """Part -> (ms, value) of every stored sample of a metric that is a number."""


class VictoriaMetrics(Receiver):
    program = "victoria-metrics"

    def command(self) -> list[str]:
        return [
            self.program,
            "-storageDataPath=data",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-retentionPeriod={FOR_EVER}",
            "-search.latencyOffset=0s",
        ]

    def ready(self) -> str:
        return "/health"

    def raw(self, name: str) -> dict[str, list[tuple[int, float]]]:
        self.ask("/internal/force_flush")
        found: dict[str, list[tuple[int, float]]] = {}
        for line in self.ask("/api/v1/export", **{"match[]": name}).splitlines():
            one = json.loads(line)
            pairs = zip(one["timestamps"], one["values"], strict=True)
            numbers = [(ms, value) for ms, value in pairs if value is not None]
            found.setdefault(one["metric"]["part"], []).extend(numbers)
        return found


class Prometheus(Receiver):
    program = "prometheus"

    def command(self) -> list[str]:
        (self.folder / "empty.yml").write_text("scrape_configs: []\n")
        return [
            self.program,
            "--config.file=empty.yml",
            "--storage.tsdb.path=data",
            f"--storage.tsdb.retention.time={FOR_EVER}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-remote-write-receiver",
        ]

    def ready(self) -> str:
        return "/-/ready"

    def query(self, text: str, at_ms: int) -> list[dict[str, Any]]:
        body = json.loads(self.ask("/api/v1/query", query=text, time=f"{at_ms / 1000:.3f}"))
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    def raw(self, name: str) -> dict[str, list[tuple[int, float]]]:
        now_ms = SystemClock().utc_ms()
        return {
            one["metric"]["part"]: [(round(s * 1000), float(v)) for s, v in one["values"]]
            for one in self.query(f"{name}[3h]", now_ms)
        }
