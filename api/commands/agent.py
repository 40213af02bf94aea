"""`wattkeeper agent --config agent.yaml`: the small privileged process on a GPU node.

It imports neither the web service nor the store nor a solver. Exit codes: 0 ended by a signal
(limits stay as they are), 1 a faulty file or a missing secret, 70 internal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import ssl
import sys
import uuid
from pathlib import Path
from typing import TextIO, cast

import structlog

from api.commands.logs import SturdyStream
from api.service.secrets import SecretMissing, find
from api.service.trust import TlsUnusable, context_of
from api.service.watchdog import notify
from drivers.agent.agent import Agent, Settings
from drivers.agent.hook import hook
from drivers.agent.protocol import Topics
from drivers.agent.settings import AgentConfig, Login, Tls, load
from drivers.agent.state import CapStateFile
from drivers.mqtt.bus import MqttBus
from drivers.nvml import Nvml
from facility.clock import SystemClock
from facility.errors import ConfigError


def agent(config_path: str) -> int:
    """Run until a signal ends it; returns the exit code."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", SturdyStream(sys.stderr))),
    )
    try:
        config = load(config_path)
        bus = _bus(config)
    except ConfigError as error:
        return _refuse(str(error))
    except _Unusable as error:
        return _refuse(f"{error} (named in {config_path})")
    asyncio.run(_serve(config, bus))
    return 0


class _Unusable(Exception):
    """Something that the agent's file names is not there or no good: key, thing, why."""


def _refuse(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


def _bus(config: AgentConfig) -> MqttBus:
    """The node's client of the broker; its will and birth tell others whether it is there."""
    topics = Topics.of(config.topic_prefix, config.node)
    tls = None if config.tls is None else _tls(config.tls)
    login = config.auth
    return MqttBus(
        config.broker,
        name=f"agent-{config.node}",
        clock=SystemClock(),
        rng=random.SystemRandom(),
        user=login.user if login is not None else None,
        password=_password(login) if login is not None else None,
        tls=tls,
        will=topics.will,
        birth=topics.birth,
    )


def _tls(files: Tls) -> ssl.SSLContext:
    try:
        return context_of(files)
    except TlsUnusable as error:
        raise _Unusable(str(error)) from None


def _password(login: Login) -> str:
    try:
        return find(login.secret)
    except SecretMissing as error:
        raise _Unusable(f"auth.secret: {error}") from None


async def _serve(config: AgentConfig, bus: MqttBus) -> None:
    running = Agent(
        Nvml(),
        bus,
        SystemClock(),
        CapStateFile(Path(config.state_dir)),
        Settings(
            config.node,
            config.topic_prefix,
            boot_id(Path(config.boot_id_file)),
            fallback_w=config.fallback,
            floor_w=config.floor,
        ),
        random.SystemRandom(),
        on_safe=_tell_ready,
        power_off=hook(config.power_off),
    )
    task = asyncio.ensure_future(running.run())
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _tell_ready() -> None:
    """Units that start after this one (workloads) may start now."""
    notify("READY=1")


def boot_id(file: Path) -> str:
    """This boot of the machine; where the file does not say, each start counts as one."""
    try:
        return file.read_text("ascii").strip() or str(uuid.uuid4())
    except (OSError, UnicodeDecodeError):
        return str(uuid.uuid4())
