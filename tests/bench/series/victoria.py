"""The peer: Debian's VictoriaMetrics on loopback, fed with remote-write bodies built before."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from facility.points import Layout, PointId, Scan
from facility.store.remote.encode import Columns, Request, requests
from facility.store.remote.naming import Naming

_START_S = 20.0
#: Each body carries so many seconds of each series: what a sender with a short queue sends, and
#: kinder to the peer than one sample a series. Of few series more, so that bodies stay large.
SECONDS_A_BODY = 5
FEW_SERIES = 1_000
SECONDS_OF_FEW = 60


class Plain(Naming):
    """Our numbers as they are: a factor to SI units would cost the peer its decimals."""

    def series(self, point: PointId) -> tuple[tuple[tuple[str, str], ...], float]:
        """Labels as the product's, factor 1."""
        return super().series(point)[0], 1.0


class Bodies:
    """Builds requests, each layout's labels once."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        few = sum(map(len, layouts)) < FEW_SERIES
        self._seconds = SECONDS_OF_FEW if few else SECONDS_A_BODY
        self._columns = {layout.key: Columns(layout, Plain()) for layout in layouts}

    def of(self, seconds: Sequence[Sequence[Scan]]) -> list[Request]:
        """Of consecutive seconds of the whole hall."""
        built: list[Request] = []
        for start in range(0, len(seconds), self._seconds):
            some = seconds[start : start + self._seconds]
            pieces = (
                piece
                for scans in zip(*some, strict=True)
                for piece in self._columns[scans[0].layout.key].pieces(
                    scans, np.array([s.source_ms for s in scans], dtype=np.int64)
                )
            )
            built += requests(pieces)
        return built


class Victoria:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, data: Path) -> None:
        self._pid = process.pid
        self._port = port
        self._data = data

    def cpu_s(self) -> float:
        """CPU time that the process has used, user and system."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def write(self, bodies: Sequence[Request]) -> None:
        """Send them, one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        for one in bodies:
            connection.request("POST", "/api/v1/write", one.body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (200, 204), answer.status
        connection.close()

    def get(self, path: str, **asked: str) -> bytes:
        """The answer's body."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        connection.request("GET", f"{path}?{urlencode(asked)}")
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status in (200, 204), (answer.status, body[:200])
        return body

    def settle(self) -> None:
        """Bring everything to the disk, merged as far as it will ever be."""
        self.get("/internal/force_flush")
        self.get("/internal/force_merge")
        quiet, before_s = 0, self.cpu_s()
        while quiet < 3:
            time.sleep(0.5)
            now_s = self.cpu_s()
            quiet = quiet + 1 if now_s - before_s < 0.05 else 0
            before_s = now_s

    def disk_bytes(self) -> int:
        """Of its data folder."""
        return sum(file.stat().st_blocks * 512 for file in self._data.rglob("*") if file.is_file())

    def raw(self, point: PointId, from_ms: int, to_ms: int) -> np.ndarray[Any, Any]:
        """float64[n, 2]: times and values of one point."""
        lines = self.get(
            "/api/v1/export",
            **{
                "match[]": f'{{device="{point.device}",part="{point.part}",kind="{point.kind}"}}',
                "start": str(from_ms / 1000),
                "end": str((to_ms - 1) / 1000),
            },
        ).splitlines()
        found: list[Mapping[str, Any]] = [json.loads(line) for line in lines]
        return np.concatenate(
            [np.stack((np.array(f["timestamps"], float), np.array(f["values"])), 1) for f in found]
        )

    def buckets(self, device: str, from_ms: int, to_ms: int, step_s: int) -> int:
        """How many numbers came back for the means of a device's points."""
        answer = json.loads(
            self.get(
                "/api/v1/query_range",
                query=f'avg_over_time({{device="{device}"}}[{step_s}s])',
                start=str(from_ms / 1000 + step_s),
                end=str(to_ms / 1000),
                step=str(step_s),
                nocache="1",
            )
        )
        return sum(len(series["values"]) for series in answer["data"]["result"])


@contextmanager
def victoria(folder: Path) -> Iterator[Victoria | None]:
    """A server with an empty folder; None where it is not installed."""
    program = shutil.which("victoria-metrics")
    if program is None:
        yield None
        return
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    data = folder / "victoria"
    process = subprocess.Popen(
        [
            program,
            f"-storageDataPath={data}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=100y",
            "-search.disableCache",
            "-loggerLevel=ERROR",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = Victoria(process, port, data)
        until_s = time.monotonic() + _START_S
        while True:
            try:
                server.get("/health")
                break
            except OSError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(30)
