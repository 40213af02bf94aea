"""How a process of the bench is started, tells what it has to tell, and ends.

Each is a module of this package with one argument, a fleet as JSON. It prints one line of JSON
when it is ready, and ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.bench.polling.fleet import Fleet

ROOT: Final = Path(__file__).resolve().parents[3]


def own_cpu_s() -> float:
    """User and system time of this process so far, all its threads, seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_s_of(pid: int) -> float:
    """User and system time of another process so far, seconds; to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """One process that serves the devices of a protocol, seen from the bench.

    Attributes:
        ports: device number -> port on its address.
    """

    def __init__(self, module: str, fleet: Fleet) -> None:
        """Start it and wait until its devices listen."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.polling.{module}", json.dumps(asdict(fleet))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{module} did not start"
        self.ports: dict[int, int] = {int(k): v for k, v in json.loads(line).items()}

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=10.0)


def fleet_asked() -> Fleet:
    """The fleet that this process was started for."""
    return Fleet(**json.loads(sys.argv[1]))


def listening(ports: Mapping[int, int]) -> None:
    """Tell the bench where the devices listen."""
    print(json.dumps(ports), flush=True)
