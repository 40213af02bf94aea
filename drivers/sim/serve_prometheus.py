"""Pages of metrics on loopback that impersonate the devices of a facility file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from drivers.catalog import profiles
from drivers.profile.binding import PrometheusAt
from drivers.sim.impersonation import Impersonation
from drivers.sim.source import SLOW_S, InstrumentSource, Served
from facility.config import DeviceConfig
from facility.points import Flaw

#: a request's head is no longer; its reader waits no longer for it than this, seconds
MAX_HEAD: Final = 16_384
HEAD_S: Final = 30.0


def page_of(who: Impersonation) -> bytes:
    """The page as the device would show it now; what it has no value for is not on it."""
    lines: list[str] = []
    for at in who.places:
        answer = who.answer(at)
        # A flaw is a number too, and no value.
        if not isinstance(at, PrometheusAt) or isinstance(answer, Flaw | tuple | str | bytes):
            continue
        series = at.where.any_of[0]
        labels = {name: wanted[0] for name, wanted in series.labels}
        if at.where.row is not None:
            labels[at.where.row] = str(at.row)
        inner = ",".join(f'{name}="{text}"' for name, text in labels.items())
        lines.append(f"{series.metric}{{{inner}}} {float(answer)!r}")
    return "".join(f"{line}\n" for line in lines).encode()


class Page:
    """One impersonated exporter."""

    def __init__(self, who: Impersonation) -> None:
        self._who = who

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer every GET on a connection, as healthy as the device is now."""
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            while True:
                async with asyncio.timeout(HEAD_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                answer = await self._answer(head)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        writer.close()

    async def _answer(self, head: bytes) -> bytes | None:
        health = self._who.health
        if health == "dead":
            await asyncio.sleep(HEAD_S)
            return None
        if health == "slow":
            await asyncio.sleep(SLOW_S)
        body = page_of(self._who)
        if health == "garbage":
            body = bytes(octet ^ 0x5A for octet in body)
        status = "200 OK" if head.startswith(b"GET ") else "405 Method Not Allowed"
        start = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return start.encode() + body


async def serve_prometheus(
    plant: InstrumentSource, devices: Mapping[str, DeviceConfig], host: str = "127.0.0.1"
) -> Served:
    """Start a page for each device whose profile reads one.

    Returns:
        device -> `http://host:port/metrics`; `close()` ends them all.
    """
    served = Served()
    known = profiles()
    for name, config in devices.items():
        profile = known.get(config.profile)
        if profile is None or profile.protocol != "prometheus":
            continue
        page = Page(Impersonation(profile, name, plant, config.parameters))
        server = await asyncio.start_server(page.serve, host, 0, limit=MAX_HEAD)
        served.closers.append(server.close)
        port = server.sockets[0].getsockname()[1]
        served[name] = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    return served
