"""A hall of 1,000 devices polled every two seconds, in CPU time, beside snmp_exporter.

700 SNMP agents of 40 values, 100 Modbus units of 120 registers and 200 MQTT nodes of 60 values,
served by three other processes from prebuilt answers; a tenth of them is dead, a twentieth slow.
The figures:

- `snmp_cpu_us_per_value`, `modbus_cpu_us_per_register`, `mqtt_cpu_us_per_value`: each protocol
  alone, its healthy devices only, from the wire to the live image: all CPU of the process
  (kernel, timers and tasks of the collector included) over what came in good.
- `healthy_cycles_ratio`: of the healthy devices' due cycles of the whole load, how many brought
  a scan in which every value is good; `late_cycles_ratio`: how many ended after their period.
- `cpu_cores`: of the collector's process under the whole load, with its threads and a store on
  SQLite that takes every scan; `cpu_cores_event_loop`: its main thread alone.
- `rss_growth_mib`, `fd_growth`: what `polls` looks back to back leave behind.
- `snmp_exporter_cpu_over_ours`: CPU for a value, the peer's over `snmp_cpu_us_per_value`; the same
  agents at the same pace, healthy ones only. See `polling.peer`.

`WATTKEEPER_BENCH_SECONDS` makes the whole load shorter, and the rest with it.
"""

from __future__ import annotations

import os
from typing import Any

from tests.bench.polling.fleet import Fleet
from tests.bench.polling.peer import scraped
from tests.bench.polling.runs import Lengths, figures_of, served

HALL = Fleet(snmp=700, modbus=100, mqtt=200)


def measure(fleet: Fleet = HALL, lengths: Lengths | None = None) -> dict[str, Any]:
    """Every figure of the issue; the peer's where it is installed."""
    lengths = lengths or Lengths.of(float(os.environ.get("WATTKEEPER_BENCH_SECONDS", "120")))
    peers: dict[str, Any] = {}
    ratios: dict[str, float] = {}
    with served(fleet) as there:
        figures = figures_of(there, lengths)
        peer = scraped(there, lengths)
    if peer is not None:
        peers["snmp_exporter"] = {"snmp_cpu_us_per_value": peer}
        ratios["snmp_exporter_cpu_over_ours"] = peer / figures["snmp_cpu_us_per_value"]
    return {"figures": figures, "peers": peers, "ratios": ratios}
