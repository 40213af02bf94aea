"""`wattkeeper serve --config FILE`."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import typer

from api.commands.logs import log_to_stderr
from api.service.overlay import read_overlay
from api.service.secrets import SecretMissing
from api.service.serving import ServeOptions, serve
from drivers.known import DriverKnowledge
from facility.checking import examine
from facility.errors import ConfigError
from facility.loading import Loaded
from facility.store import StoreError

_HOST = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.\-]{0,252})|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%\w+)?")


def run(
    config: str, host: str, port: int, state: str, record: str | None, overlay: str | None
) -> int:
    """Run the service; 1 for a faulty file or an environment that cannot be used."""
    log_to_stderr()
    if not _HOST.fullmatch(host):
        # The system would take an empty one (a variable that is not set) for every address.
        typer.echo(f"--host {host!r}: an address or a host name of this machine", err=True)
        return 2
    try:
        taken = read_overlay(overlay) if overlay is not None else None
    except ConfigError as error:
        typer.echo(str(error), err=True)
        return 2
    loaded, problems = examine(config, DriverKnowledge.shipped(), simulated=taken is not None)
    if loaded is None:
        for problem in problems:
            typer.echo(str(problem), err=True)
        return 1
    if taken is None and not loaded.facility.devices:
        typer.echo(f"{config}: names no devices: nothing to read, nothing to serve", err=True)
        return 1
    options = ServeOptions(host, port, Path(state), Path(record) if record else None, taken)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_to_the_end(loaded, options))
    except (StoreError, SecretMissing, ValueError, OSError, OverflowError) as error:
        typer.echo(f"wattkeeper serve: {error}", err=True)
        return 1


async def _to_the_end(loaded: Loaded, options: ServeOptions) -> int:
    """Serve; a second signal, sent while the process already goes, changes nothing.

    A closing event loop gives signals their default meaning back, and an orderly end would read
    as a kill.
    """
    try:
        return await serve(loaded, options)
    finally:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


def _loop_factory() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.Loop
