"""The broker of most sites as a process of its own, on a port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

PROGRAM = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
MISSING = not Path(PROGRAM).exists()


class Mosquitto:
    """A broker that can go away and come back on the same port."""

    def __init__(self, folder: Path, extra: str = "allow_anonymous true\n") -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self.port} 127.0.0.1\n{extra}")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """As a facility file has it."""
        return f"mqtt://127.0.0.1:{self.port}"

    async def up(self) -> None:
        """Start, and wait until it takes connections."""
        self._process = await asyncio.create_subprocess_exec(
            PROGRAM, "-c", str(self._config), stderr=asyncio.subprocess.DEVNULL
        )
        for _ in range(200):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            await asyncio.sleep(0.02)

    async def down(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            await process.wait()


@asynccontextmanager
async def mosquitto(
    folder: Path, extra: str = "allow_anonymous true\n"
) -> AsyncIterator[Mosquitto]:
    """A broker that runs inside the block."""
    broker = Mosquitto(folder, extra)
    await broker.up()
    try:
        yield broker
    finally:
        await broker.down()
