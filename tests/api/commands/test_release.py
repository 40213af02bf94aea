"""A scope that is not quite right: the refusal says which one was perhaps meant."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from api.commands.release import KEY_VARIABLE, hint, run

SCOPES = ["hall", "loop:loop-1", "rack:r01", "rack:r02"]


class Service(BaseHTTPRequestHandler):
    """Knows no scope that is asked for, and tells which ones there are."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(404, {"detail": f"no scope {self.path.rpartition('/')[2]!r}"})

    def do_GET(self) -> None:
        if self.path == "/api/v1/modes":
            self._say(200, [{"scope": scope, "mode": "auto", "own": False} for scope in SCOPES])
        else:
            self._say(404, {"detail": "no such page"})

    def _say(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Silent."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_rack_without_its_kind_is_hinted_at(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "key")
    assert run("r01", url, "drill", json=True) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["problem"] == "no scope 'r01' (did you mean rack:r01?)"


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("R02", " (did you mean rack:r02?)"),
        ("loop-1", " (did you mean loop:loop-1?)"),
        ("RACK:R01", " (did you mean rack:r01?)"),
        ("xyzzy", ""),
    ],
)
def test_the_hint_is_the_nearest_scope_or_nothing(scope: str, said: str) -> None:
    assert hint(scope, SCOPES) == said
