"""Addresses of Modbus lines in `wattkeeper check` and `wattkeeper poll`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from api.commands.poll import poll
from drivers.known import DriverKnowledge
from facility.checking import examine
from tests.conftest import ROOT
from tests.drivers.modbus.test_wires import serve_rtu

DEMO = (ROOT / "facility" / "demo.yaml").read_text("utf-8")


@pytest.mark.parametrize(("second", "faults"), [("?baud=9600", 0), ("?baud=19200", 1)])
def test_check_refuses_one_serial_line_with_two_settings(
    tmp_path: Path, second: str, faults: int
) -> None:
    path = tmp_path / "facility.yaml"
    line = "modbus+serial:///dev/ttyUSB0"
    ranged = '{profile: cdu/wattkeeper-sim, address: "modbus://cdu-{1}:502/1", measures:'
    assert ranged in DEMO
    text = DEMO.replace("  cdu-[1-2]:\n    " + ranged, f"  cdu-1:\n    {ranged}").replace(
        "modbus://cdu-{1}:502/1", f"{line}/1?baud=9600"
    )
    measured = text.split(f"{line}/1?baud=9600", 1)[1].split("\n", 1)[0].lstrip('"')
    text = text.replace(
        f'baud=9600"{measured}\n',
        f'baud=9600"{measured}\n'
        f'  cdu-2:\n    {{profile: cdu/wattkeeper-sim, address: "{line}/2{second}"{measured}\n',
        1,
    )
    path.write_text(text, "utf-8")
    _, problems = examine(str(path), DriverKnowledge.shipped(), simulated=True)
    assert [p.path for p in problems] == ["devices.cdu-2.address"] * faults
    assert all("cdu-1 is at /dev/ttyUSB0 too" in p.problem for p in problems)


@pytest.mark.system
async def test_poll_reads_through_a_serial_device_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = await asyncio.start_server(serve_rtu, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = f"modbus+rtu://127.0.0.1:{port}/3"
    code = await asyncio.to_thread(poll, "cdu/orv3-rpu", target, None, None, True, None, True)
    server.close()
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert told["target"] == target
    flow = next(r for r in told["readings"] if r["kind"] == "flow")
    assert flow["raw"] == "36864"
