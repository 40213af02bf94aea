"""`wattkeeper serve`: one process with collectors, control loop and API, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import uvicorn

from api.app import ApiSettings, create_app
from api.hall import Hall
from api.remote_write import RemoteWriter, headers_of, naming_of
from api.service.account import write_account
from api.service.brokers import Brokers, brokers_of
from api.service.door import Door
from api.service.overlay import Overlay
from api.service.point_rules import rules_of
from api.service.running import Running
from api.service.secrets import find
from api.service.service import Service
from api.service.stepping import SteppedClock
from api.service.watchdog import notify
from api.service.wiring import Outside, build, field_devices, simulated, sinks_from, traps_for
from api.service.workers import ThreadWorkers
from api.webhooks import HttpPost, sinks_of
from facility.clock import SystemClock
from facility.config import Facility
from facility.loading import Loaded
from facility.store import open_store, upgrade
from facility.store.remote import RemoteSink, Spool

log = structlog.get_logger(__name__)

EXIT_CRASH: Final = 70
DRAIN_S: Final = 5
READY_POLL_S: Final = 0.2
ORPHAN_POLL_S: Final = 1.0
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class ServeOptions:
    """What was asked for on the command line."""

    host: str
    port: int
    state: Path
    record: Path | None = None
    overlay: Overlay | None = None


async def serve(loaded: Loaded, options: ServeOptions) -> int:
    """Run a hall; returns the exit code.

    Raises:
        StoreError: the database cannot be opened.
        SecretMissing: a secret that the file names is not there.
        OSError: the port is taken.
    """
    overlay = options.overlay
    stepped = None if overlay is None or overlay.clock is None else Path(overlay.clock)
    clock = SystemClock() if stepped is None else SteppedClock(stepped)
    facility = loaded.facility
    if overlay is not None:
        facility = simulated(facility, {n: h.url for n, h in overlay.webhooks.items()})
    rng = random.Random()
    listener = _listen(options.host, options.port)
    url = _url(listener)
    database = store_url(facility, overlay)
    upgrade(database)
    options.state.mkdir(parents=True, exist_ok=True)
    store = open_store(
        database,
        clock,
        hall=facility.site.name,
        spill=options.state / "spill.jsonl",
        rules=rules_of(facility),
    )
    workers = ThreadWorkers()
    # One thread of its own: a spool that waits for its disk must not keep plans waiting.
    spooling = ThreadWorkers(1)
    brokers = brokers_of(facility, overlay, clock, rng)
    post = HttpPost()
    remote = None
    try:
        remote = _remote(facility, options, post, spooling, clock, rng)
        outside = Outside(
            devices=field_devices(clock, brokers.brokers, overlay),
            bus=brokers.agents,
            post=post,
            sinks=sinks_from(facility, overlay),
            owner=f"{socket.gethostname()}:{os.getpid()}",
            link=url,
            remote=remote,
        )
        service = build(
            loaded,
            facility,
            outside,
            store,
            clock,
            workers,
            rng,
            options.record,
            is_simulated=overlay is not None,
        )
        if overlay is None:
            service.traps = traps_for(service, sinks_of(facility))
        code, stuck = await _run(service, brokers, rng, listener, url, options)
        write_account(options.state, service)
    finally:
        await post.close()
        workers.close()
        spooling.close()
        if remote is not None:
            remote.sink.close()
        store.close()
    if stuck:
        # Everything is written; a task that ignores its cancellation must not keep the process.
        log.error("exit_with_stuck_tasks", tasks=stuck, code=code)
        os._exit(code)
    return code


def store_url(facility: Facility, overlay: Overlay | None) -> str:
    """The database's URL, the password filled in from where the file says it is.

    Raises:
        SecretMissing: it is not there.
    """
    if overlay is not None:
        return overlay.store
    url, auth = facility.store.url, facility.store.auth
    if auth is None:
        return url
    entry = facility.auth[auth]
    user = f"{entry.user}:" if entry.user else ""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}{find(entry.secret)}@{rest}"


def _remote(
    facility: Facility,
    options: ServeOptions,
    post: HttpPost,
    workers: ThreadWorkers,
    clock: SystemClock,
    rng: random.Random,
) -> RemoteWriter | None:
    """Remote-write as the file wants it; a simulation sends nothing to the receiver of the field.

    Raises:
        SecretMissing: what it logs in with is not there.
        StoreError: the spool cannot be used.
    """
    settings = facility.store.remote_write
    if settings is None or options.overlay is not None:
        return None
    auth = facility.auth[settings.auth] if settings.auth is not None else None
    headers = headers_of(settings, auth, find(auth.secret) if auth is not None else "")
    spool = Spool(options.state / "remote-write", int(settings.spool))
    sink = RemoteSink(spool, naming_of(facility, settings))
    return RemoteWriter(sink, settings.url, headers, post, workers, clock, rng)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.set_inheritable(False)
    return sock


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _run(
    service: Service,
    brokers: Brokers,
    rng: random.Random,
    listener: socket.socket,
    url: str,
    options: ServeOptions,
) -> tuple[int, tuple[str, ...]]:
    """Run until told to stop; returns the exit code and the tasks that would not end."""
    running = Running(service, brokers.agents, rng, brokers.others)
    stop = _stop_on_signals()
    hosts = (*LOOPBACK, options.host) if options.host not in ("0.0.0.0", "::") else ("*",)
    server = _server(service, ApiSettings(hosts=hosts, link=url))
    await running.start()
    # A hall's million points live as long as the process: a collection that walks them all would
    # stop a cycle for half a second.
    gc.collect()
    gc.freeze()
    web = asyncio.create_task(server.serve(sockets=[listener]), name="web")
    _announce(url)
    fed = asyncio.create_task(_feed_watchdog(service, options.state), name="watchdog")
    died = asyncio.create_task(running.supervisor.wait_fatal(), name="fatal")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    orphaned = asyncio.create_task(_stop_as_orphan(options.overlay, stop), name="orphan")
    clock = service.clock
    if isinstance(clock, SteppedClock):
        running.supervisor.restart("clock steps", clock.follow)
    await asyncio.wait({died, stopped, web}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if stop.is_set() else EXIT_CRASH
    notify("STOPPING=1")
    log.info("stopping", code=code)
    stuck = await running.stop()
    service.feed.close()
    server.should_exit = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(web), DRAIN_S + 1)
    for task in (fed, died, stopped, web, orphaned):
        task.cancel()
    await asyncio.wait({fed, died, stopped, web, orphaned}, timeout=1.0)
    return code, stuck


async def _stop_as_orphan(overlay: Overlay | None, stop: asyncio.Event) -> None:
    """End when the simulation that we belong to was killed: nobody else would end us."""
    parent = overlay.parent if overlay is not None else None
    while parent is not None and not stop.is_set():
        if os.getppid() != parent:
            log.info("parent_gone", parent=parent)
            stop.set()
        await asyncio.sleep(ORPHAN_POLL_S)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: signals are the service's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _server(hall: Hall, settings: ApiSettings) -> uvicorn.Server:
    app = create_app(hall, settings)
    config = uvicorn.Config(
        app,
        http=Door,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=DRAIN_S,
        server_header=False,
        proxy_headers=False,
    )
    return _Server(config)


def _announce(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    notify("READY=1")
    log.info("listening", url=url)


async def _feed_watchdog(service: Service, state: Path) -> None:
    """Feed systemd's watchdog after each completed cycle, and say once that all devices answer."""
    ready, fed = False, 0
    while True:
        cycles = service.loop.stats.cycles
        if cycles > fed:
            notify("WATCHDOG=1")
            fed = cycles
        if not ready and fed and _all_answer(service.devices()):
            # A full disk must not end this task: systemd would kill a service that works.
            with contextlib.suppress(OSError):
                (state / "ready").touch()
            ready = True
        await asyncio.sleep(READY_POLL_S)


def _all_answer(devices: Sequence[object]) -> bool:
    return all(getattr(device, "state", "") == "good" for device in devices)
