"""What agents tell: a status each second, an ack for each command; written and read here.

Reading is lenient in what it ignores and strict in what it believes: a value of the wrong type
or not finite is None, and a message without the keys that identify it is no message at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drivers.agent.gpu import Board, GpuReading, LimitAnswer, TokenCounts
from drivers.agent.lease import State
from drivers.agent.protocol import (
    MAX_INTEGER,
    MAX_REPORT_BYTES,
    VERSION,
    Header,
    dump,
    load_object,
    number_or_none,
)

#: Boards keep limits in steps of up to 1 W; a read-back this near is the value written.
SAME_W: Final = 1.0
#: As many GPUs as one node may report.
MAX_GPUS: Final = 16


@dataclass(frozen=True, slots=True)
class GpuReport:
    """One GPU in a status.

    Attributes:
        commanded_w: what the agent last wrote, W; None if nothing.
        prior_w: what a release puts back, W; None while nothing of ours is on the GPU.
        prior_from: `found` before the first write, or the board's `default` for want of it.
    """

    index: int
    uuid: str
    reading: GpuReading
    commanded_w: float | None
    min_w: float | None
    max_w: float | None
    default_w: float | None
    prior_w: float | None = None
    prior_from: str | None = None

    @property
    def limit_w(self) -> float | None:
        """Requested limit as read back."""
        return self.reading.limit_w

    @property
    def enforced_w(self) -> float | None:
        """The least of all limiters."""
        return self.reading.enforced_w


@dataclass(frozen=True, slots=True)
class Status:
    """One second of one node.

    Attributes:
        run: of the agent's process; `sequence` counts its statuses from 1.
        nonce: to be quoted by the next command.
        utc_ms, monotonic_s: the node's own clocks.
        owner, epoch: of the newest lease; owner None before the first.
        lease_left_s: None when no lease is valid.
        applied: sequence of the last cap or release accepted in this epoch, or None.
        refused: commands refused in this run.
        unsaved: the state file could not be written.
    """

    node: str
    run: str
    sequence: int
    nonce: str
    utc_ms: int | None
    monotonic_s: float | None
    state: State
    owner: str | None
    epoch: int
    lease_left_s: float | None
    fallback_w: float | None
    applied: int | None
    refused: int
    unsaved: bool
    gpus: tuple[GpuReport, ...]
    tokens: TokenCounts | None


@dataclass(frozen=True, slots=True)
class GpuAck:
    """What one GPU did with a command: asked of it, then read back; W."""

    uuid: str
    asked_w: float | None
    answer: LimitAnswer

    @property
    def as_asked(self) -> bool:
        """Whether the limit read back is the one asked for."""
        limit_w = self.answer.limit_w
        return limit_w is not None and (
            self.asked_w is None or abs(limit_w - self.asked_w) <= SAME_W
        )


@dataclass(frozen=True, slots=True)
class AgentAck:
    """The agent's answer to one command.

    Attributes:
        kind: the command's type.
        code: `applied`, `clamped`, or a refusal of `drivers.agent.protocol`.
        detail: the same in words.
        gpus: one per GPU that was asked; empty for refusals and leases.
    """

    node: str
    kind: str
    owner: str
    epoch: int
    sequence: int
    code: str
    detail: str
    gpus: tuple[GpuAck, ...]


def status_bytes(status: Status) -> bytes:
    """A status as it goes over the bus."""
    lease = None
    if status.owner is not None:
        lease = {
            "owner": status.owner,
            "epoch": status.epoch,
            "left_s": _round(status.lease_left_s, 3),
            "applied": status.applied,
        }
    tokens = status.tokens
    return dump(
        {
            "v": VERSION,
            "node": status.node,
            "run": status.run,
            "sequence": status.sequence,
            "nonce": status.nonce,
            "utc_ms": status.utc_ms,
            "monotonic_s": _round(status.monotonic_s, 3),
            "state": status.state.name.lower(),
            "lease": lease,
            "fallback_w": status.fallback_w,
            "refused": status.refused,
            "unsaved": status.unsaved,
            "gpus": [_gpu_body(gpu) for gpu in status.gpus],
            "tokens": None
            if tokens is None
            else {
                "prompt": tokens.prompt,
                "generated": tokens.generated,
                "running": tokens.running,
                "waiting": tokens.waiting,
            },
        }
    )


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _gpu_body(gpu: GpuReport) -> dict[str, Any]:
    read = gpu.reading
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "power_w": _round(read.power_w, 3),
        "energy_wh": _round(read.energy_wh, 6),
        "temperature_c": _round(read.temperature_c, 3),
        "margin_k": _round(read.margin_k, 3),
        "limit_w": _round(read.limit_w, 3),
        "enforced_w": _round(read.enforced_w, 3),
        "commanded_w": _round(gpu.commanded_w, 3),
        "clock_hz": _round(read.clock_hz, 0),
        "events": read.events,
        "min_w": _round(gpu.min_w, 3),
        "max_w": _round(gpu.max_w, 3),
        "default_w": _round(gpu.default_w, 3),
        "prior_w": _round(gpu.prior_w, 3),
        "prior_from": gpu.prior_from,
        "fault": read.fault,
    }


def gpu_report(
    board: Board,
    reading: GpuReading,
    commanded_w: float | None,
    prior_w: float | None,
    prior_from: str | None,
) -> GpuReport:
    """One GPU of a status from what the port answered."""
    return GpuReport(
        board.index,
        board.uuid,
        reading,
        commanded_w,
        board.min_w,
        board.max_w,
        board.default_w,
        prior_w,
        prior_from,
    )


def ack_bytes(
    node: str, kind: str, header: Header, code: str, detail: str, gpus: Sequence[GpuAck] = ()
) -> bytes:
    """An ack as it goes over the bus."""
    return dump(
        {
            "v": VERSION,
            "node": node,
            "type": kind,
            "owner": header.owner,
            "epoch": header.epoch,
            "sequence": header.sequence,
            "code": code,
            "detail": detail[:256],
            "gpus": [
                {
                    "uuid": gpu.uuid,
                    "asked_w": _round(gpu.asked_w, 3),
                    "limit_w": _round(gpu.answer.limit_w, 3),
                    "enforced_w": _round(gpu.answer.enforced_w, 3),
                    "fault": gpu.answer.fault,
                }
                for gpu in gpus
            ],
        }
    )


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise ValueError(f"{key}: not a short text")
    return value


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INTEGER:
        raise ValueError(f"{key}: not a whole number")
    return value


def _whole_or_none(value: object) -> int | None:
    try:
        return _whole(value, "")
    except ValueError:
        return None


def _load(payload: bytes, node: str) -> dict[str, Any]:
    raw = load_object(payload, MAX_REPORT_BYTES)
    if raw.get("v") != VERSION:
        raise ValueError("v: another version")
    if raw.get("node") != node:
        raise ValueError("node: not the node of the topic")
    return raw


_FAULTS: Final = frozenset(
    {
        "no_permission", "out_of_range", "not_supported", "gpu_lost", "timeout", "no_driver",
        "no_prior", "unknown",
    }
)  # fmt: skip


def _fault_of(raw: Mapping[str, Any]) -> Any:
    fault = raw.get("fault")
    if fault is None or (isinstance(fault, str) and fault in _FAULTS):
        return fault
    return "unknown"


def parse_status(payload: bytes, node: str) -> Status:
    """Read a status of `node`.

    Raises:
        ValueError: not a status of this node and version.
    """
    raw = _load(payload, node)
    name = _text(raw, "state")
    try:
        state = State[name.upper()]
    except KeyError:
        raise ValueError(f"state: no state {name!r}") from None
    gpus = raw.get("gpus")
    if not isinstance(gpus, list) or len(gpus) > MAX_GPUS:
        raise ValueError(f"gpus: not a list of at most {MAX_GPUS}")
    lease = raw.get("lease")
    lease = lease if isinstance(lease, dict) else {}
    return Status(
        node=node,
        run=_text(raw, "run"),
        sequence=_whole(raw.get("sequence"), "sequence"),
        nonce=_text(raw, "nonce"),
        utc_ms=_whole_or_none(raw.get("utc_ms")),
        monotonic_s=number_or_none(raw.get("monotonic_s")),
        state=state,
        owner=_text(lease, "owner") if lease else None,
        epoch=_whole(lease.get("epoch"), "epoch") if lease else 0,
        lease_left_s=number_or_none(lease.get("left_s")),
        fallback_w=number_or_none(raw.get("fallback_w")),
        applied=_whole_or_none(lease.get("applied")),
        refused=_whole_or_none(raw.get("refused")) or 0,
        unsaved=raw.get("unsaved") is True,
        gpus=tuple(_parse_gpu(gpu) for gpu in gpus),
        tokens=_parse_tokens(raw.get("tokens")),
    )


def _parse_gpu(raw: object) -> GpuReport:
    if not isinstance(raw, dict):
        raise ValueError("gpus: not objects")
    reading = GpuReading(
        limit_w=number_or_none(raw.get("limit_w")),
        enforced_w=number_or_none(raw.get("enforced_w")),
        power_w=number_or_none(raw.get("power_w")),
        energy_wh=number_or_none(raw.get("energy_wh")),
        temperature_c=number_or_none(raw.get("temperature_c")),
        margin_k=number_or_none(raw.get("margin_k")),
        clock_hz=number_or_none(raw.get("clock_hz")),
        events=_whole_or_none(raw.get("events")),
        fault=_fault_of(raw),
    )
    return GpuReport(
        _whole(raw.get("index"), "index"),
        _text(raw, "uuid"),
        reading,
        number_or_none(raw.get("commanded_w")),
        number_or_none(raw.get("min_w")),
        number_or_none(raw.get("max_w")),
        number_or_none(raw.get("default_w")),
        number_or_none(raw.get("prior_w")),
        origin if (origin := raw.get("prior_from")) in ("found", "default") else None,
    )


def _parse_tokens(raw: object) -> TokenCounts | None:
    if not isinstance(raw, dict):
        return None
    counts = [number_or_none(raw.get(k)) for k in ("prompt", "generated", "running", "waiting")]
    known = [count for count in counts if count is not None and count >= 0.0]
    return TokenCounts(*known) if len(known) == len(counts) else None


def parse_ack(payload: bytes, node: str) -> AgentAck:
    """Read an ack of `node`.

    Raises:
        ValueError: not an ack of this node and version.
    """
    raw = _load(payload, node)
    gpus = raw.get("gpus")
    if not isinstance(gpus, list) or len(gpus) > MAX_GPUS:
        raise ValueError(f"gpus: not a list of at most {MAX_GPUS}")
    detail = raw.get("detail")
    return AgentAck(
        node,
        _text(raw, "type"),
        _text(raw, "owner"),
        _whole(raw.get("epoch"), "epoch"),
        _whole(raw.get("sequence"), "sequence"),
        _text(raw, "code"),
        detail if isinstance(detail, str) else "",
        tuple(_parse_gpu_ack(gpu) for gpu in gpus),
    )


def _parse_gpu_ack(raw: object) -> GpuAck:
    if not isinstance(raw, dict):
        raise ValueError("gpus: not objects")
    answer = LimitAnswer(
        number_or_none(raw.get("limit_w")),
        number_or_none(raw.get("enforced_w")),
        _fault_of(raw),
    )
    return GpuAck(_text(raw, "uuid"), number_or_none(raw.get("asked_w")), answer)
