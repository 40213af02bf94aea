"""Whether the service lives, is ready, and its numbers for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, Depends
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import JSONResponse, Response

from api.hall import DeviceStatus, Hall, RemoteHealth
from api.picture import by_name, fact, finite, loops, mode_of, number, racks, scopes, trust
from api.routes.deps import HallDep, needs, problems
from api.security import Role
from facility.commands import Severity

router = APIRouter(tags=["health"])

LATE_PERIODS: Final = 10.0
LATE_S: Final = 10.0
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def late_after_s(hall: Hall) -> float:
    """Age of the last cycle at which the loop counts as stuck."""
    return max(LATE_S, LATE_PERIODS * hall.facility.control.period)


@router.get("/livez", summary="Does the control loop make progress?")
async def livez(hall: HallDep) -> Response:
    """200 while cycles finish; 503 when none has for ten periods (at least 10 s)."""
    status = hall.status()
    age_s = status.uptime_s if status.cycle_age_s is None else status.cycle_age_s
    alive = age_s <= late_after_s(hall)
    body = {"alive": alive, "cycle_age_s": status.cycle_age_s, "uptime_s": status.uptime_s}
    return JSONResponse(finite(body), 200 if alive else 503)


@router.get("/readyz", summary="Can requests be answered?")
async def readyz(hall: HallDep) -> Response:
    """200 while the database answers and its schema is ours; devices and webhooks do not count."""
    status = hall.status()
    ready = status.database is None and status.migrated
    body = {"ready": ready, "database": status.database or "ok", "migrated": status.migrated}
    return JSONResponse(body, 200 if ready else 503)


class _Numbers:
    """Aggregates of one hall, read when scraped: racks, elements, loops; never single GPUs."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def collect(self) -> Iterator[Metric]:
        """One metric family after the other."""
        yield from self._plant()
        yield from self._service()

    def _plant(self) -> Iterator[Metric]:
        hall = self._hall
        rows = racks(hall)
        for name, text, values in (
            ("power_watts", "Measured power of a rack", [(r.rack, r.power_w) for r in rows]),
            (
                "headroom_watts",
                "What a rack alone may add, in the worst single loss",
                [(r.rack, r.headroom_w) for r in rows],
            ),
            (
                "tokens_per_joule",
                "Tokens per second per watt of a rack",
                [(r.rack, r.tokens_per_joule) for r in rows],
            ),
            ("inlet_celsius", "Hottest inlet sensor", [(r.rack, r.inlet_c) for r in rows]),
            ("cap_watts", "Greatest cap per GPU", [(r.rack, r.cap_high_w) for r in rows]),
        ):
            yield gauge(f"rack_{name}", text, "rack", values)
        elements = by_name(fact(hall.decision(), "headroom").get("elements"), "element")
        for name, key, text in (
            ("load_watts", "normal_w", "Counted load of a power element, nothing lost"),
            ("headroom_watts", "headroom_w", "Room left in the worst single loss"),
            ("limit_watts", "limit_w", "Limit of a power element"),
        ):
            values = [(e, number(row.get(key))) for e, row in elements.items()]
            yield gauge(f"element_{name}", text, "element", values)
        cooling = loops(hall)
        for name, text, values in (
            ("supply_celsius", "Supply temperature", [(v.loop, v.supply_c) for v in cooling]),
            ("setpoint_celsius", "Supply set-point", [(v.loop, v.setpoint_c) for v in cooling]),
            (
                "condensation_margin_kelvin",
                "Supply above the highest dew point",
                [(v.loop, v.to_dew_k) for v in cooling],
            ),
            (
                "throttle_margin_kelvin",
                "Least GPU margin to slowdown",
                [(v.loop, v.to_throttle_k) for v in cooling],
            ),
        ):
            yield gauge(f"loop_{name}", text, "loop", values)
        efficiency = fact(hall.decision(), "efficiency")
        values = [
            (who, number((efficiency.get(who) or {}).get("tokens_per_joule")))
            for who in ("hall", "twin")
        ]
        yield gauge("tokens_per_joule", "Tokens per second per watt", "of", values)

    def _service(self) -> Iterator[Metric]:
        hall = self._hall
        status, seen = hall.status(), trust(hall)
        grades = [("good", seen.good), ("suspect", seen.suspect), ("bad", seen.bad)]
        yield gauge("points", "Points by grade of their newest value", "grade", grades)
        devices = hall.devices()
        states = Counter(device.state for device in devices)
        yield gauge("devices", "Devices by how they answer", "state", list(states.items()))
        yield from _slow(devices)
        yield from _odd(devices)
        active = Counter(alarm.severity for alarm in hall.feed.active_alarms())
        severities = [(s.name.lower(), active[s]) for s in Severity]
        yield gauge("alarms_active", "Active alarms", "severity", severities)
        yield gauge("cycle_milliseconds", "Control cycle", "quantile", status.cycle_ms.items())
        info = GaugeMetricFamily(
            "wattkeeper_mode_info", "Mode of a scope", labels=["scope", "mode"]
        )
        for scope in scopes(hall):
            info.add_metric([scope, mode_of(hall, scope).value], 1.0)
        yield info
        for name, text, value in (
            ("cycle_age_seconds", "Since the last finished cycle", status.cycle_age_s),
            ("uptime_seconds", "Since start", status.uptime_s),
            ("database_up", "Whether the database answers", float(status.database is None)),
            ("leader", "Whether this controller holds the lease", float(status.epoch is not None)),
            ("samples_stored", "Samples stored since start", status.samples_stored),
            ("samples_dropped", "Samples dropped since start", status.samples_dropped),
            ("samples_queued", "Samples that wait to be written", status.samples_queued),
            (
                "samples_waiting_seconds",
                "How long the oldest of them has waited",
                status.samples_waiting_s,
            ),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"wattkeeper_{name}", text, value=value)
        if (remote := status.remote) is not None:
            yield from _remote(remote)
        if status.traps is not None:
            family = CounterMetricFamily(
                "wattkeeper_traps", "Datagrams at the port of traps by outcome", labels=["outcome"]
            )
            for outcome, count in sorted(status.traps.items()):
                family.add_metric([outcome.replace(" ", "_")], count)
            yield family


def _slow(devices: Sequence[DeviceStatus]) -> Iterator[Metric]:
    """Who does not keep its period, by name; those that do have no series."""
    late = [device for device in devices if device.overruns]
    looks = [(d.id, d.look_s) for d in late if d.state == "slow"]
    yield gauge("device_look_seconds", "From a slow device's turn to its answer", "device", looks)
    counted = CounterMetricFamily(
        "wattkeeper_device_overruns", "Looks that did not end in their period", labels=["device"]
    )
    for device in late:
        counted.add_metric([device.id], device.overruns)
    yield counted


def _odd(devices: Sequence[DeviceStatus]) -> Iterator[Metric]:
    """Whose answers were odd, and in what way; those that never were have no series."""
    counted = CounterMetricFamily(
        "wattkeeper_device_odd_answers",
        "Answers that were late, garbled or to no request",
        labels=["device", "what"],
    )
    for device in devices:
        for what, count in sorted(device.odd.items()):
            counted.add_metric([device.id, what], count)
    yield counted


def _remote(remote: RemoteHealth) -> Iterator[Metric]:
    for name, text, value in (
        ("up", "Whether the receiver takes samples", float(remote.error is None)),
        ("waiting_bytes", "In the spool, not sent", remote.waiting_bytes),
    ):
        yield GaugeMetricFamily(f"wattkeeper_remote_write_{name}", text, value=value)
    ends = CounterMetricFamily(
        "wattkeeper_remote_write_samples", "Samples by what became of them", labels=["end"]
    )
    for end in ("sent", "refused", "dropped"):
        ends.add_metric([end], getattr(remote, f"{end}_samples"))
    yield ends
    yield CounterMetricFamily(
        "wattkeeper_remote_write_damaged_records", "Left out of the spool", value=remote.damaged
    )


def gauge(name: str, text: str, label: str, values: Any) -> Metric:
    """A gauge with one label; a value that is not known is left out, not 0."""
    family = GaugeMetricFamily(f"wattkeeper_{name}", text, labels=[label])
    for key, value in values:
        if value is not None:
            family.add_metric([key], float(value))
    return family


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    responses=problems(),
    dependencies=[Depends(needs(Role.VIEWER))],
)
async def metrics(hall: HallDep) -> Response:
    """Aggregates per rack, element and loop in base units, and the service's own health."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(hall))
    return Response(generate_latest(registry), media_type=METRICS_TYPE)
