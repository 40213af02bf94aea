"""`poll --record`: devices full of secrets become files without one that are tests."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from api.commands.poll import poll
from drivers.capture import read_capture
from drivers.mqtt.bus import MqttBus
from drivers.sim import ber
from drivers.sim.broker import EmbeddedBroker
from facility.clock import SystemClock
from tests.captures.test_captures import reads_as_it_says
from tests.drivers.snmp.rig import Oid, Wire, integer, table, text

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

#: what no recording may hold, in any spelling
SECRETS = (
    "5A1304T00789", "dungeon", "jane", "doe", "acme", "10.20.30.40", "fe80::1:2", "00:24:35:9b",
    "0024359b03f6", "00AA11BB22CC", "SER-4711", "GPU-6f9d", "tenant-x", "node-r07", "llama-secret",
    "GW-99", "0000:0f:00", "payroll",
)  # fmt: skip
SYSTEM = (1, 3, 6, 1, 2, 1, 1)
RPDU2 = (1, 3, 6, 1, 4, 1, 318, 1, 1, 26)
CHATSWORTH = (1, 3, 6, 1, 4, 1, 30932, 1, 10, 1, 3, 110, 1)


def own_words(description: str, name: str) -> dict[Oid, ber.Value]:
    """What every agent says of itself."""
    return {
        (*SYSTEM, 1, 0): text(description),
        (*SYSTEM, 4, 0): text("Jane Doe <jane.doe@acme.example.com>"),
        (*SYSTEM, 5, 0): text(name),
        (*SYSTEM, 6, 0): text("ACME dungeon, rack 7"),
    }


APC = own_words(
    "APC Web/SNMP Management Card (MB:v4.1.0 PF:v6.4.6 PN:apc_hw05_aos_646.bin AF1:v6.4.6 "
    "MN:AP8841 HR:02 SN: 5A1304T00789 MD:01/28/2013) acme-pdu-7 at 10.20.30.40 fe80::1:2 "
    "00:24:35:9B:03:F6 pdu7.acme.local",
    "acme-pdu-7",
) | {
    (*SYSTEM, 2, 0): ber.Value(ber.OID, ber.of_oid((1, 3, 6, 1, 4, 1, 318, 1, 3, 4, 6))),
    (*RPDU2, 4, 3, 1, 5, 1): integer(27),
    **{
        (*RPDU2, 6, 3, 1, column, row): integer(value)
        for row in (1, 2, 3)
        for column, value in ((1, row), (5, 13), (6, 231), (7, 27))
    },
}


def chatsworth_row(row: int, octets: bytes) -> tuple[int, ...]:
    return (row, len(octets), *octets)


CPI = own_words("Epicenter SNMP agent of Jane", "node-r07") | {
    (*CHATSWORTH, column, *chatsworth_row(row, octets)): integer(value)
    for row, octets in ((1, b"00AA11BB22CC"), (2, b"ACME-PDU"), (3, bytes.fromhex("0024359b03f6")))
    for column, value in ((3, 100 * row), (5, 2300), (6, 230 * row))
}

LABELS = (
    'gpu="{gpu}",UUID="GPU-6f9d{gpu}",pci_bus_id="0000:0f:00.{gpu}",device="nvidia{gpu}",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="node-r07.acme.local",'
    'DCGM_FI_DRIVER_VERSION="570.86.15",namespace="tenant-x",pod="payroll-0"'
)
PAGE = (
    "# HELP DCGM_FI_DEV_GPU_TEMP of node-r07\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
    + "".join(
        f"{metric}{{{LABELS.format(gpu=gpu)}}} {value + gpu}\n"
        for metric, value in (("DCGM_FI_DEV_POWER_USAGE", 512.25), ("DCGM_FI_DEV_GPU_TEMP", 61))
        for gpu in range(3)
    )
    + 'DCGM_FI_DEV_SECRET_OF_ACME{Hostname="node-r07"} 1\n'
)
ENGINE = "".join(
    f'vllm:{metric}{{engine="{engine}",model_name="acme/llama-secret"}} {value}\n'
    for engine in (0, 1)
    for metric, value in (("num_requests_running", 3), ("num_requests_waiting", 2))
)


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """Runs things on a loop in a thread of its own: `poll` brings its own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def there(job: Awaitable[Any]) -> Any:
        made: Future[Any] = asyncio.run_coroutine_threadsafe(job, loop)  # type: ignore[arg-type]
        return made.result(15.0)

    yield there
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10.0)


async def agent(values: dict[Oid, ber.Value]) -> str:
    made = Wire(table(values))
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: made, local_addr=("127.0.0.1", 0))
    return f"snmp://127.0.0.1:{made.port}"


async def page(body: str) -> str:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}\r\n{body}".encode())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics?pod=payroll-0"


async def meter() -> str:
    """A Modbus meter whose model text holds its serial."""
    registers = dict.fromkeys(range(66000), 0)
    model = b"PM5560 SN:5A1304T00789\0".ljust(40, b"\0")
    for base in (29, 49):
        for i in range(20):
            registers[base + i] = int.from_bytes(model[2 * i : 2 * i + 2], "big")
    registers[129], registers[130] = 0x5A13, 0x04FF

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readexactly(12):
            first, count = int.from_bytes(head[8:10], "big"), int.from_bytes(head[10:12], "big")
            words = b"".join(registers[first + i].to_bytes(2, "big") for i in range(count))
            body = bytes((head[6], head[7], len(words))) + words
            writer.write(head[:4] + len(body).to_bytes(2, "big") + body)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return f"modbus://127.0.0.1:{server.sockets[0].getsockname()[1]}/1"


async def sensor(*, speaks: bool = True) -> tuple[str, Callable[[], Awaitable[None]]]:
    """A gateway that publishes under the name of its owner, again and again or once, kept."""
    broker = EmbeddedBroker()
    address = await broker.start()
    bus = MqttBus(address, name="gateway", clock=SystemClock(), rng=random.Random(1))
    await bus.start()

    async def speak() -> None:
        said = {"temperature_c": 24.25, "humidity_percent": "45.5", "leak": "at Jane's desk"}
        while True:
            await bus.publish("acme/GW-99", json.dumps(said).encode(), retain=not speaks)
            await asyncio.sleep(0.1 if speaks or not bus.connected else 3600.0)

    while not bus.connected:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    speaking = asyncio.create_task(speak())
    await asyncio.sleep(0.2)

    async def stop() -> None:
        speaking.cancel()
        await bus.close()
        await broker.stop()

    return f"{address}/acme/GW-99", stop


def record(profile: str, target: str, path: Path) -> None:
    assert poll(profile, target, None, None, True, str(path), True) == 0


def is_clean(path: Path) -> None:
    held = path.read_text("utf-8")
    # An OID spells texts in octets.
    octets = [re.findall(r"\d+", line) for line in held.split('"') if line.count(".") > 8]
    spelled = " ".join(bytes(int(o) & 255 for o in line).decode("latin-1") for line in octets)
    spelled += " ".join(bytes(int(o) & 255 for o in line).hex() for line in octets)
    for secret in SECRETS:
        assert secret.lower() not in held.lower(), secret
        assert secret.lower() not in spelled.lower(), secret


def test_devices_full_of_secrets_become_captures_without_one_that_are_tests_as_they_are(
    run: Callable[[Awaitable[Any]], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published, stop = run(sensor())
    cases = {
        "apc": ("auto", run(agent(APC)), 7),
        "cpi": ("pdu/chatsworth", run(agent(CPI)), 9),
        "dcgm": ("gpu/dcgm-exporter", run(page(PAGE)), 6),
        "vllm": ("engine/vllm", run(page(ENGINE)), 2),
        "meter": ("meter/schneider-pm5xxx", run(meter()), 3),
        "sensor": ("sensor/json-mqtt", published, 2),
    }
    for name, (profile, target, least) in cases.items():
        path = tmp_path / f"{name}.json"
        record(profile, target, path)
        is_clean(path)
        asyncio.run(reads_as_it_says(path))
        told = read_capture(path).readings
        assert sum(isinstance(value, float) for value in told.values()) >= least, name
    run(stop())
    said = capsys.readouterr().err
    for shown in ("'5A1304T00789' by 'name", "'node-r07.acme.local' by 'text", "kept      model"):
        assert shown in said


def test_a_capture_still_says_which_firmware_and_what_belongs_together(
    run: Callable[[Awaitable[Any]], Any], tmp_path: Path
) -> None:
    for name, profile, target in (
        ("apc", "auto", run(agent(APC))),
        ("cpi", "pdu/chatsworth", run(agent(CPI))),
        ("dcgm", "gpu/dcgm-exporter", run(page(PAGE))),
    ):
        record(profile, target, tmp_path / f"{name}.json")
    apc = read_capture(tmp_path / "apc.json")
    assert apc.identity == {"vendor": "APC", "model": "AP8841", "firmware": "6.4.6"}
    assert apc.claim is not None
    assert "PF:v6.4.6" in apc.claim.description
    assert "SN: name" in apc.claim.description
    rows = read_capture(tmp_path / "cpi.json").rows["branches"]
    assert list(rows) == ["1-020000000001", "2-text1", "3-0x000000000001"]
    lines = read_capture(tmp_path / "dcgm.json").page.lines  # type: ignore[union-attr]
    boards = [line for line in lines if 'gpu="1"' in line]
    assert len(boards) == 2
    assert len({re.search(r'UUID="(\w+)"', line)[1] for line in boards}) == 1  # type: ignore[index]
    assert all('DCGM_FI_DRIVER_VERSION="570.86.15"' in line for line in boards)


def test_a_recording_never_takes_the_place_of_a_file(
    run: Callable[[Awaitable[Any]], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "apc.json"
    path.write_text("mine")
    asked = ("auto", run(agent(APC)), None, None, True)
    assert poll(*asked, str(path), False) == 2
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert poll(*asked, str(tmp_path / "no" / "x.json"), False) == 2
    assert os.listdir(tmp_path) == ["apc.json"]


def test_what_a_broker_only_kept_is_read_and_said_to_be_of_unknown_age(
    run: Callable[[Awaitable[Any]], Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drivers.mqtt.transport.LISTEN_S", 0.5)
    target, stop = run(sensor(speaks=False))
    assert poll("sensor/json-mqtt", target, None, None, True, None, True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["readings"][0]["value"] == 24.25
    (check,) = document["checks"]
    assert not check["ok"]
    assert "unknown age: acme/GW-99" in check["detail"]
    assert poll("sensor/json-mqtt", f"{target}/nobody", None, None, True, None, True) == 1
    run(stop())
    capsys.readouterr()
    assert poll("sensor/json-mqtt", target, None, None, True, None, True) == 1
    assert "the broker does not take us" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("mqtt://user:pw@127.0.0.1/x", "a login is not for the address"),
        ("mqtt://127.0.0.1/a/#", "is not the topic of one device"),
        ("mqtt://127.0.0.1/", "is not the topic of one device"),
        ("mqtt:hall/r01", "poll asks devices at"),
    ],
)
def test_a_broker_without_the_topic_of_one_device_is_wrong_usage(
    target: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert poll("sensor/json-mqtt", target, None, None, True, None, False) == 2
    assert why in capsys.readouterr().err
