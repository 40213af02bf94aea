"""A PostgreSQL to measure: one of our own that syncs, else the one that the tests use."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from facility.clock import SystemClock

_START_S = 20.0


def _programs() -> Path | None:
    """The newest server's folder."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    if found:
        return found[-1]
    named = shutil.which("postgres")
    return Path(named).parent if named else None


@contextmanager
def postgres(folder: Path) -> Iterator[str | None]:
    """URL of an empty database of a server with default durability; None without any server."""
    programs = _programs()
    if programs is None:
        yield from _of_tests()
        return
    user = None
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            yield from _of_tests()
            return
    home = Path(tempfile.mkdtemp(prefix="bench-pg-", dir=folder.parent))
    if user is not None:
        os.chown(home, user.pw_uid, user.pw_gid)
    who = {"user": user.pw_uid, "group": user.pw_gid} if user is not None else {}
    process = None
    try:
        subprocess.run(
            [programs / "initdb", "-D", home / "data", "-U", "bench", "--auth=trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=home,
            **who,  # type: ignore[call-overload]
        )
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        options = ("listen_addresses=127.0.0.1", f"unix_socket_directories={home}")
        process = subprocess.Popen(
            [
                programs / "postgres",
                *("-D", home / "data", "-p", str(port)),
                *(part for option in options for part in ("-c", option)),
                *("-c", "max_wal_size=4GB"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
            **who,  # type: ignore[call-overload]
        )
        _wait(f"postgresql+psycopg://bench@127.0.0.1:{port}/postgres")
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        shutil.rmtree(home, ignore_errors=True)


def _wait(url: str) -> None:
    clock = SystemClock()
    until_s = clock.monotonic_s() + _START_S
    engine = sa.create_engine(url)
    while True:
        try:
            with engine.connect():
                engine.dispose()
                return
        except sa.exc.OperationalError:
            if clock.monotonic_s() > until_s:
                raise


def _of_tests() -> Iterator[str | None]:
    named = os.environ.get("WATTKEEPER_TEST_POSTGRES")
    if not named:
        yield None
        return
    url = make_url(named).set(drivername="postgresql+psycopg")
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    name = f"wk_bench_{os.getpid()}"
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield make_url(named).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()
