"""What the agent must not forget: limits that were there before it, and what it last did.

The file is written whole beside the old one, flushed to the disk and renamed over it, so that a
crash at any moment leaves one of the two. A file that cannot be read is set aside: the agent
then starts like one that has never run, which can only lower caps.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from drivers.agent.lease import Standing, State
from drivers.agent.protocol import load_object, number_or_none

VERSION: Final = 1
MAX_BYTES: Final = 65_536

_log = structlog.get_logger("wattkeeper.agent")


@dataclass(frozen=True, slots=True)
class Saved:
    """The memory of an agent between its runs.

    Attributes:
        boot_id: of the machine's boot in which this was saved.
        standing: of the lease machine; moments of the monotonic clock in it mean nothing later.
        prior_w: GPU UUID -> limit found before the first write, W.
        assumed: those of them that are the board's default because none could be read.
        configured_w: fallback of agent.yaml at the time; another one now replaces what a
            controller named.
    """

    boot_id: str
    standing: Standing = field(default_factory=Standing)
    prior_w: Mapping[str, float] = field(default_factory=dict)
    configured_w: float | None = None
    assumed: Set[str] = frozenset()


class CapState(Protocol):
    """Where the memory is kept."""

    def load(self) -> Saved | None:
        """What was saved last, or None if there is nothing to trust."""

    async def save(self, saved: Saved) -> bool:
        """Keep it across a crash of the machine; False if that failed."""


class MemoryState:
    """A memory that lives as long as this object: simulated nodes, tests."""

    def __init__(self, saved: Saved | None = None) -> None:
        """Begin with what an earlier run left, if there was one."""
        self._saved = saved

    def load(self) -> Saved | None:
        """What was saved last."""
        return self._saved

    async def save(self, saved: Saved) -> bool:
        """Keep it."""
        self._saved = saved
        return True


class CapStateFile:
    """The memory as `caps.json` in the agent's state directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "caps.json"

    def load(self) -> Saved | None:
        """Read the file; one that is damaged is renamed and None returned."""
        try:
            payload = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.error("state file cannot be read", file=str(self.path), reason=str(error))
            return None
        try:
            return _decode(payload)
        except ValueError as error:
            aside = self.path.with_suffix(".damaged")
            _log.error("state file is damaged", kept_as=str(aside), reason=str(error))
            os.replace(self.path, aside)
            return None

    async def save(self, saved: Saved) -> bool:
        """Write, flush, rename; in a thread, since a disk may take its time."""
        try:
            await asyncio.to_thread(self._write, _encode(saved))
        except OSError as error:
            _log.error("state file cannot be written", file=str(self.path), reason=str(error))
            return False
        return True

    def _write(self, payload: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, payload)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _encode(saved: Saved) -> bytes:
    standing = saved.standing
    body: dict[str, Any] = {
        "version": VERSION,
        "boot_id": saved.boot_id,
        "state": standing.state.name.lower(),
        "owner": standing.owner,
        "epoch": standing.epoch,
        "hold_s": standing.hold_s,
        "spread_s": standing.spread_s,
        "fallback_w": standing.fallback_w,
        "commanded_w": standing.commanded_w,
        "released": standing.released,
        "prior_w": dict(saved.prior_w),
        "assumed": sorted(saved.assumed),
        "configured_w": saved.configured_w,
    }
    return (json.dumps(body, indent=1, allow_nan=False) + "\n").encode()


def _decode(payload: bytes) -> Saved:
    raw = load_object(payload, MAX_BYTES)
    if raw.get("version") != VERSION:
        raise ValueError(f"version: not {VERSION}")
    boot_id, owner, epoch = raw.get("boot_id"), raw.get("owner"), raw.get("epoch")
    if not isinstance(boot_id, str) or not isinstance(owner, str) or not isinstance(epoch, int):
        raise ValueError("boot_id, owner or epoch: missing")
    prior = raw.get("prior_w")
    if not isinstance(prior, dict):
        raise ValueError("prior_w: missing")
    prior_w = {uuid: number_or_none(watts) for uuid, watts in prior.items()}
    known_w = {uuid: watts for uuid, watts in prior_w.items() if watts is not None and watts > 0}
    if len(known_w) != len(prior):
        raise ValueError("prior_w: not numbers of watts")
    hold_s, spread_s = number_or_none(raw.get("hold_s")), number_or_none(raw.get("spread_s"))
    state = State.__members__.get(str(raw.get("state")).upper())
    if state is None or hold_s is None or spread_s is None:
        raise ValueError("state, hold_s or spread_s: missing")
    standing = Standing(
        state=state,
        owner=owner,
        epoch=epoch,
        hold_s=hold_s,
        spread_s=spread_s,
        fallback_w=number_or_none(raw.get("fallback_w")),
        commanded_w=number_or_none(raw.get("commanded_w")),
        released=raw.get("released") is True,
    )
    assumed = raw.get("assumed", [])  # agents before it always wrote limits that they had read
    if not isinstance(assumed, list):
        raise ValueError("assumed: not a list")
    marked = frozenset(uuid for uuid in assumed if uuid in known_w)
    return Saved(boot_id, standing, known_w, number_or_none(raw.get("configured_w")), marked)
