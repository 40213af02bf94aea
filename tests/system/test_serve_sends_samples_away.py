"""`serve` sends what it reads to the receiver that its file names, and tells how that goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.facility.store.remote.wire import STALE, read

TOKEN = "a-token-of-the-test"


class Receiver(ThreadingHTTPServer):
    """Keeps the requests it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.news = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()
        self.server.news.set()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.system
@pytest.mark.slow
def test_serve_sends_every_point_with_the_headers_of_its_file(
    receiver: Receiver, tmp_path: Path
) -> None:
    text = (ROOT / "facility" / "demo.yaml").read_text("utf-8")
    assert "\nauth:\n" in text
    text = text.replace("\nauth:\n", "\nauth:\n  vm: {secret: {env: WK_TEST_VM_TOKEN}}\n")
    url = f"http://127.0.0.1:{receiver.server_address[1]}/api/v1/write"
    file = tmp_path / "hall.yaml"
    file.write_text(
        f"{text}\nstore:\n  url: sqlite:///{tmp_path / 'hall.db'}\n"
        f"  remote_write: {{url: '{url}', auth: vm, tenant: t1, labels: {{site: oslo}}}}\n"
    )
    secrets = {"WK_TEST_VM_TOKEN": TOKEN, "WATTKEEPER_SNMP_COMMUNITY": "public"}
    serve = subprocess.Popen(
        [
            *(sys.executable, "-c", "from api.cli import main; main()", "serve"),
            *("--config", str(file), "--port", "0", "--state", str(tmp_path / "state")),
        ],
        cwd=ROOT,
        env={**os.environ, **secrets},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serve.stdout is not None
        assert "url" in json.loads(serve.stdout.readline() or "{}"), serve.communicate()[1][-2000:]
        assert receiver.news.wait(30), "nothing came"
    finally:
        serve.send_signal(signal.SIGTERM)
        _, log = serve.communicate(timeout=60)
    assert serve.returncode == 0, log[-2000:]
    assert TOKEN not in log
    path, headers, body = receiver.got[0]
    assert path == "/api/v1/write"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["x-scope-orgid"] == "t1"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    told = read(body)
    labels = [dict(pairs) for pairs in told]
    assert all(one["site"] == "oslo" and one["hall"] for one in labels)
    assert any("rack" in one for one in labels)
    # Nothing answers here: what was perhaps left from a former run is ended, and no number is sent.
    assert {raw for samples in told.values() for _, raw in samples} == {STALE}
    assert list((tmp_path / "state" / "remote-write").glob("*.seg"))
