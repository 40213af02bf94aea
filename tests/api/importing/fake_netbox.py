"""A small NetBox on loopback that answers as 4.6 does: recorded shapes, pages, token, filters.

The rows are a site of two panels, four racks and their PDUs, with names and numbers of our own.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

TOKEN = "nbt_abc.0123456789"
Rows = dict[str, list[dict[str, Any]]]


def _choice(value: str) -> dict[str, str]:
    return {"value": value, "label": value.replace("-", " ").title()}


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "url": "", "display": row["name"], "name": row["name"]}


def _cable(row: dict[str, Any], kind: str, ends: list[dict[str, Any]]) -> None:
    row |= {
        "connected_endpoints": [_brief(end) for end in ends],
        "connected_endpoints_type": kind,
        "connected_endpoints_reachable": True,
    }


def site() -> Rows:
    """Two panels A and B; racks r01 to r03 with one feed and one PDU a side, r04 with none."""
    panels = [{"id": i, "name": name} for i, name in ((1, "PNL-A1"), (2, "PNL-B1"))]
    racks = [{"id": i, "name": f"r{i:02}", "u_height": 48} for i in range(1, 5)]
    rows: Rows = {
        "power-panels": panels,
        "power-feeds": [],
        "racks": racks,
        "devices": [],
        "power-ports": [],
        "power-outlets": [],
    }
    for rack in racks[:3]:
        server = _device(rows, f"{rack['name']}-n1", "dgx-h100", rack)
        for side, panel in enumerate(panels):
            feed = {
                "id": len(rows["power-feeds"]) + 1,
                "name": f"F{rack['id']}",
                "power_panel": _brief(panel),
                "rack": _brief(rack),
                "status": _choice("active"),
                "type": _choice(("primary", "redundant")[side]),
                "supply": _choice("ac"),
                "phase": _choice("three-phase"),
                "voltage": 415,
                "amperage": 63,
                "max_utilization": 80,
                "tags": [],
                "custom_fields": {"power_side": None},
                "connected_endpoints": None,
                "connected_endpoints_type": None,
            }
            rows["power-feeds"].append(feed)
            pdu = _device(rows, f"pdu-{rack['name']}-{'ab'[side]}", "ap8959", rack)
            inlet = _port(rows, pdu, "Inlet", 40000)
            _cable(feed, "dcim.powerport", [inlet])
            for supply, leg in enumerate("ABC"):
                outlet = {
                    "id": len(rows["power-outlets"]) + 1,
                    "device": _brief(pdu),
                    "name": f"O{supply}",
                    "power_port": _brief(inlet),
                    "feed_leg": _choice(leg),
                }
                rows["power-outlets"].append(outlet)
                port = _port(rows, server, f"PSU{3 * side + supply}", 3000)
                _cable(port, "dcim.poweroutlet", [outlet])
    return rows


def _device(rows: Rows, name: str, kind: str, rack: dict[str, Any]) -> dict[str, Any]:
    row = {
        "id": len(rows["devices"]) + 1,
        "name": name,
        "device_type": {"id": 1, "model": kind.upper(), "slug": kind},
        "rack": _brief(rack),
    }
    rows["devices"].append(row)
    return row


def _port(rows: Rows, device: dict[str, Any], name: str, draw_w: int | None) -> dict[str, Any]:
    row = {
        "id": len(rows["power-ports"]) + 1,
        "device": _brief(device),
        "name": name,
        "maximum_draw": draw_w,
        "allocated_draw": None,
        "connected_endpoints": None,
        "connected_endpoints_type": None,
    }
    rows["power-ports"].append(row)
    return row


Instead = Callable[[BaseHTTPRequestHandler], bool]


@contextmanager
def serving(
    rows: Rows, *, page: int = 2, next_host: str | None = None, instead: Instead | None = None
) -> Iterator[str]:
    """The address of a NetBox with these rows; `page` is its MAX_PAGE_SIZE.

    `instead` may answer in its place, and says whether it did.
    """
    shown = copy.deepcopy(rows)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if instead is not None and instead(self):
                return
            parts = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            what = parts.path.removeprefix("/api/dcim/").strip("/")
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._answer(403, {"detail": "Invalid v2 token"})
            elif what not in shown:
                self._answer(404, {"detail": "Not found."})
            elif query.get("site") != "lab":
                self._answer(400, {"site": ["Select a valid choice."]})
            else:
                self._list(parts.path, query, shown[what])

        def _list(self, path: str, query: dict[str, str], rows: list[dict[str, Any]]) -> None:
            size, offset = min(int(query["limit"]), page), int(query.get("offset", 0))
            after = offset + size
            host = next_host or self.headers["Host"]
            onward = urlencode({**query, "offset": after})
            self._answer(
                200,
                {
                    "count": len(rows),
                    "next": f"http://{host}{path}?{onward}" if after < len(rows) else None,
                    "previous": None,
                    "results": rows[offset:after],
                },
            )

        def _answer(self, status: int, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # The default looks only twice a second whether to stop.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
