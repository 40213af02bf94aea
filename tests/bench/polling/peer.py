"""The peer: Debian's snmp_exporter on loopback, scraped for the same values of the same agents.

Its module names the 40 OIDs with one GET, as many a request as we ask for, which is kinder to it
than the walks that its generator writes. Its CPU holds what ours holds (requests, answers, values
in memory) and the page of text that it hands over instead of a live image.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from drivers.profile.binding import SnmpAt
from tests.bench.polling.fleet import UNITS_OF_LOOK, binding_of, host_of
from tests.bench.polling.runs import Lengths, Served
from tests.bench.polling.serving import cpu_s_of

PROGRAM: Final = "prometheus-snmp-exporter"
_START_S: Final = 10.0
_CONNECTIONS: Final = 32


def module() -> str:
    """Its configuration: a metric for each column, the row as a label."""
    oids = [p.at.oid for p in binding_of("snmp", 0, 1.0).all() if isinstance(p.at, SnmpAt)]
    columns = dict.fromkeys(oid[:-1] for oid in oids)
    return yaml.safe_dump(
        {
            "bench": {
                "get": [".".join(map(str, oid)) for oid in oids],
                "metrics": [
                    {
                        "name": f"column_{i}",
                        "oid": ".".join(map(str, column)),
                        "type": "gauge",
                        "help": "a column of the bench",
                        "indexes": [{"labelname": "row", "type": "gauge"}],
                    }
                    for i, column in enumerate(columns)
                ],
                "version": 2,
                "max_repetitions": len(oids),
                "timeout": "1s",
                "retries": 0,
                "auth": {"community": "public"},
            }
        }
    )


@contextmanager
def exporter() -> Iterator[tuple[int, int] | None]:
    """Process id and port of a running one; None where it is not installed."""
    program = shutil.which(PROGRAM)
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        file = Path(folder) / "snmp.yml"
        file.write_text(module(), "utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        arguments = [f"--config.file={file}", f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(
            [program, *arguments, "--log.level=error"], stderr=subprocess.DEVNULL
        )
        try:
            _await_port(port)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait(timeout=10.0)


def _await_port(port: int) -> None:
    deadline_s = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def scraped(there: Served, lengths: Lengths) -> float | None:
    """Its microseconds of CPU for each value of the healthy agents, asked as often as we ask."""
    with exporter() as found:
        if found is None:
            return None
        pid, port = found
        ports = there.servers["snmp"].ports
        targets = [f"{host_of('snmp', i)}:{ports[i]}" for i in there.fleet.healthy("snmp")]
        return asyncio.run(_scrape(pid, port, targets, there.fleet.period_s, lengths))


async def _scrape(
    pid: int, port: int, targets: Sequence[str], period_s: float, lengths: Lengths
) -> float:
    began_s = time.monotonic()
    until_s = began_s + lengths.warm_s + lengths.alone_s
    counts = [0]

    async def share(first: int) -> None:
        """Every so-many-th target over one connection, each at its time of the period."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = 0
        while True:
            for number in range(first, len(targets), _CONNECTIONS):
                due_s = began_s + period_s * (turn + number / len(targets))
                if due_s > until_s:
                    writer.close()
                    return
                await asyncio.sleep(max(due_s - time.monotonic(), 0.0))
                counts[0] += await _one(reader, writer, targets[number])
            turn += 1

    async def window() -> float:
        await asyncio.sleep(lengths.warm_s)
        values, cpu_s = counts[0], cpu_s_of(pid)
        await asyncio.sleep(lengths.alone_s)
        return 1e6 * (cpu_s_of(pid) - cpu_s) / (counts[0] - values)

    sharing = asyncio.gather(*(share(i) for i in range(min(_CONNECTIONS, len(targets)))))
    spent = await window()
    await sharing
    return spent


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> int:
    """One scrape; how many values it had."""
    request = f"GET /snmp?module=bench&target={target} HTTP/1.1\r\nHost: bench\r\n\r\n"
    writer.write(request.encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith("http/1.1 200"), head
    if "transfer-encoding: chunked" in head:
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
    values = sum(line.startswith(b"column_") for line in body.splitlines())
    assert values == UNITS_OF_LOOK["snmp"], body
    return values
