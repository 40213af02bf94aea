"""The demo's answer: the plant's truth, the service's own account, one document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def document(
    *,
    scenario: str,
    seed: int,
    truth: Mapping[str, Any],
    service: Mapping[str, Any],
    database: str,
    url: str,
) -> dict[str, Any]:
    """One JSON document as contracts.md says.

    `truth` comes from `drivers.sim` (seconds, power, cooling, tokens, uncontrolled,
    overload_to_caps_s), `service` from `api.service.account` (cycles, cycle_ms, devices, points,
    samples, caps, alarms, webhooks).
    """
    caps = {**service["caps"], "overload_to_caps_s": truth.get("overload_to_caps_s")}
    return {
        "scenario": scenario,
        "seed": seed,
        "seconds": truth["seconds"],
        "cycles": service["cycles"],
        "cycle_ms": service["cycle_ms"],
        "devices": service["devices"],
        "points": service["points"],
        "samples_stored": service["samples_stored"],
        "power": truth["power"],
        "cooling": truth["cooling"],
        "caps": caps,
        "tokens": truth["tokens"],
        "uncontrolled": truth["uncontrolled"],
        "alarms": service["alarms"],
        "webhooks": service["webhooks"],
        "database": database,
        "url": url,
    }


def _number(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "—" if value is None else f"{value:,.{digits}f}{unit}"


def sentences(report: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    power, cooling, tokens = report["power"], report["cooling"], report["tokens"]
    twin, caps = report["uncontrolled"], report["caps"]
    tripped = ", ".join(power["tripped"]) or "nothing"
    twin_tripped = ", ".join(twin["tripped"]) or "nothing"
    of_best = tokens.get("of_clairvoyant")
    best = f"{of_best:.1%} of the clairvoyant" if of_best is not None else "best not known"
    parts = (
        (
            f"{report['scenario']}, seed {report['seed']}",
            f"{report['seconds']:.0f} s of plant time, {report['cycles']} control cycles",
        ),
        (
            "power",
            f"tripped {tripped}; overloaded {power['overload_s']:.1f} s",
            f"N+1 missing {power['redundancy_lost_s']:.1f} s",
            f"tightest {_number(power['worst_headroom_w'], ' W')}",
        ),
        (
            "cooling",
            f"throttled {cooling['thermal_throttle_s']:.1f} s",
            f"below dew point {cooling['below_dew_point_s']:.1f} s",
        ),
        (
            "caps",
            f"{caps['commands']} commands: {caps['applied']} applied, {caps['clamped']} clamped",
            f"{caps['rejected']} rejected, {caps['unanswered']} unanswered",
        ),
        (
            "tokens",
            _number(tokens["per_s"], " tok/s"),
            f"{_number(tokens['per_joule_rack'], ' tok/J', 4)} at the racks",
            best,
        ),
        (
            "twin",
            f"without control tripped {twin_tripped}",
            f"throttled {twin['thermal_throttle_s']:.1f} s",
            _number(twin["tokens_per_joule_rack"], " tok/J", 4),
        ),
        (
            "people",
            f"{report['alarms']['raised']} alarms, {report['alarms']['pages']} pages",
            f"{report['webhooks']['delivered']} webhooks delivered",
            f"{report['webhooks']['failed']} failed",
        ),
    )
    return [f"{head + ':':9} {'; '.join(rest)}" for head, *rest in parts]
