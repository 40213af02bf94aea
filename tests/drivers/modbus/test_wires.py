"""Over real wires: TLS with a private authority, a serial line, a device server, pymodbus."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
import ssl
import struct
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pymodbus import FramerType
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from drivers.address import parse_address
from drivers.device import ProfiledDevice
from drivers.modbus import ModbusLink, ModbusTransport
from drivers.modbus.framing import crc16
from drivers.modbus.pdu import Fault
from drivers.modbus.wires import Stream
from drivers.profile.binding import may_write
from drivers.transport import Links
from facility.clock import SystemClock
from facility.points import Flaw
from tests.drivers.faults.wires import JumpingClock
from tests.drivers.modbus.lines import echoed, flaws, read, registers
from tests.drivers.wires import links

pytestmark = pytest.mark.system


def box_at(address: str, *addresses: int) -> ProfiledDevice:
    binding = registers(*addresses)
    transport = ModbusTransport(parse_address(address), links(), binding.profile.modbus)
    return ProfiledDevice(binding, transport, SystemClock())


class Authority:
    """A private certificate authority in a folder."""

    def __init__(self, folder: Path, name: str, days: int = 1) -> None:
        self.folder, self.name, self._days = folder, name, days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._cert = self._signed(name, self._key, ca=True)
        self.ca = self._write(f"{name}.pem", self._cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[str, str]:
        """Paths of a certificate for a host name and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(name, key, ca=False)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        pem = cert.public_bytes(serialization.Encoding.PEM)
        return self._write(f"{name}.crt", pem), self._write(f"{name}.key", secret)

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=2))
            .not_valid_after(now + dt.timedelta(days=self._days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / f"{self.name}-{name}"
        path.write_bytes(data)
        return str(path)


@asynccontextmanager
async def tls_server(authority: Authority, name: str) -> AsyncIterator[int]:
    """A Modbus server that asks for a certificate of its own authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(name))
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                transaction, _, length, unit = struct.unpack(">HHHB", await reader.readexactly(7))
                reply = echoed(await reader.readexactly(length - 1))
                writer.write(struct.pack(">HHHB", transaction, 0, len(reply) + 1, unit) + reply)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_tls_needs_the_right_authority_the_right_name_and_a_certificate(
    tmp_path: Path,
) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    cert, key = ours.issue("wattkeeper")
    mine = f"cert={cert}&key={key}"
    async with tls_server(ours, "cdu-1") as port:
        at = f"modbus+tls://127.0.0.1:{port}/1"
        good = box_at(f"{at}?ca={ours.ca}&{mine}&name=cdu-1", 4)
        assert list((await read(good)).values) == [4.0]
        await good.close()
        for options in (
            f"ca={other.ca}&{mine}&name=cdu-1",  # not signed by whom we trust
            f"ca={ours.ca}&{mine}&name=cdu-2",  # another device
            f"ca={ours.ca}&name=cdu-1",  # we show no certificate
            f"ca={tmp_path}/none.pem&name=cdu-1",
        ):
            box = box_at(f"{at}?{options}", 4)
            assert flaws(await read(box)) == [Flaw.TIMEOUT], options
            await box.close()


async def serve_rtu(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A serial device server with units 1 to 3 behind it."""
    try:
        while True:
            frame = await reader.readexactly(8)
            if frame[0] <= 3:
                body = frame[:1] + echoed(frame[1:-2])
                writer.write(body + crc16(body).to_bytes(2, "little"))
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        writer.close()


async def test_units_behind_a_serial_device_server_are_read() -> None:
    server = await asyncio.start_server(serve_rtu, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    box = box_at(f"modbus+rtu://127.0.0.1:{port}/3", *range(100))
    assert list((await read(box)).values) == list(range(100))
    assert (await box.transport.put(box.binding.all()[4].at, (9,))).outcome == "accepted"
    dead = box_at(f"modbus+rtu://127.0.0.1:{port}/4", 1)
    assert flaws(await read(dead)) == [Flaw.TIMEOUT]
    await box.close()
    await dead.close()
    server.close()


async def test_pymodbus_serves_rtu_frames_that_we_read() -> None:
    holding = [SimData(0, values=list(range(60)), datatype=DataType.REGISTERS)]
    server = ModbusTcpServer(
        SimDevice(3, simdata=holding), framer=FramerType.RTU, address=("127.0.0.1", 0)
    )
    await server.serve_forever(background=True)
    assert server.transport is not None
    port = server.transport.sockets[0].getsockname()[1]
    box = box_at(f"modbus+rtu://127.0.0.1:{port}/3", *range(60))
    try:
        assert list((await read(box)).values) == list(range(60))
    finally:
        await box.close()
        await server.shutdown()


class Serial:
    """A serial line on a pseudo-terminal with units at its far end.

    Attributes:
        noise: bytes that come before the next answer.
    """

    def __init__(self) -> None:
        self._far, near = os.openpty()
        tty.setraw(self._far)
        tty.setraw(near)
        self.path = os.ttyname(near)
        os.close(near)
        os.set_blocking(self._far, False)
        self._held = b""
        self.noise = b""
        self.asked = 0
        asyncio.get_running_loop().add_reader(self._far, self._read)

    def _read(self) -> None:
        try:
            self._held += os.read(self._far, 4096)
        except OSError:
            return
        while len(self._held) >= 8:
            frame, self._held = self._held[:8], self._held[8:]
            self.asked += 1
            if frame[0] <= 3:
                body = frame[:1] + echoed(frame[1:-2])
                os.write(self._far, self.noise + body + crc16(body).to_bytes(2, "little"))
                self.noise = b""

    def unplug(self) -> None:
        asyncio.get_running_loop().remove_reader(self._far)
        os.close(self._far)


async def test_a_serial_line_is_read_written_shared_and_survives_noise_and_unplugging() -> None:
    line = Serial()
    shared, binding = links(), registers(*range(100))
    boxes = [
        ProfiledDevice(
            binding,
            ModbusTransport(
                parse_address(f"modbus+serial://{line.path}/{unit}?baud=115200&parity=none"),
                shared,
                binding.profile.modbus,
            ),
            SystemClock(),
        )
        for unit in (1, 2, 7)
    ]
    scans = await asyncio.gather(*(read(box) for box in boxes))
    assert list(scans[0].values) == list(scans[1].values) == list(range(100))
    assert set(flaws(scans[2])) == {Flaw.TIMEOUT}
    assert boxes[0].transport.link is boxes[1].transport.link  # type: ignore[attr-defined]
    line.noise = b"\xff\x00\x13"
    assert set(flaws(await read(boxes[0]))) == {Flaw.NONE}  # asked once more
    assert (await boxes[1].transport.put(binding.all()[4].at, (9,))).outcome == "accepted"
    assert not may_write(binding.profile, boxes[1].transport.host)  # a line is not this machine
    line.unplug()
    assert set(flaws(await read(boxes[0]))) == {Flaw.TIMEOUT}
    await boxes[0].close()


async def test_a_serial_line_that_is_not_there_is_a_timeout() -> None:
    box = box_at("modbus+serial:///dev/no-such-line/1", 4)
    assert flaws(await read(box)) == [Flaw.TIMEOUT]
    await box.close()


async def test_a_write_that_never_left_for_the_device_is_thrown_away_with_its_connection() -> None:
    """The system went on sending it for minutes, long after its deadline, past newer ones."""
    came = bytearray()
    read_on, over = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio.ReadTransport
        await read_on.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        try:
            while data := await reader.read(65536):
                came.extend(data)
        except ConnectionError:
            pass
        over.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    port = server.sockets[0].getsockname()[1]
    _, stream = await loop.create_connection(
        lambda: Stream(lambda _: None, lambda: None), "127.0.0.1", port
    )
    assert not stream.take_back()  # nothing is under way
    for _ in range(400):
        stream.write(b"x" * 65536)
    assert stream.take_back()
    read_on.set()
    await asyncio.wait_for(over.wait(), 5.0)
    assert len(came) < 400 * 65536
    server.close()


@pytest.mark.parametrize("host", ["cdu..hall", "x" * 64 + ".hall"])
async def test_a_host_that_no_name_can_be_is_a_timeout_and_no_fault_of_ours(host: str) -> None:
    box = box_at(f"modbus://{host}:502/1", 4)
    assert flaws(await read(box)) == [Flaw.TIMEOUT]
    await box.close()


async def test_a_serial_line_that_goes_while_it_is_opened_is_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyserial lets termios.error through, which is no OSError: the reader failed."""

    def gone(*_: object, **__: object) -> None:
        raise termios.error(5, "Input/output error")

    monkeypatch.setattr("serial.Serial", gone)
    box = box_at("modbus+serial:///dev/ttyUSB0/1", 4)
    assert flaws(await read(box)) == [Flaw.TIMEOUT]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_device_that_never_ends_its_tls_handshake_costs_no_sockets(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, w: held.append(w), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    at = parse_address(f"modbus+tls://127.0.0.1:{port}/1?ca={ours.ca}&name=cdu-1")
    link = ModbusLink(at, Links(SystemClock(), random.Random(1), timeout_s=0.02))
    link.join(1, ())
    before = open_files()
    for _ in range(10):
        request = bytes((3, 0, 0, 0, 1))
        assert await link.ask(1, request, 4, urgent=True) is Fault.AWAY
    await asyncio.sleep(0.05)
    assert len(held) >= 5
    for writer in held:
        writer.close()
    await asyncio.sleep(0.05)
    assert open_files() <= before + 2
    server.close()


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours", days=-1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ours.issue("cdu-1"))
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    box = box_at(f"modbus+tls://127.0.0.1:{port}/1?ca={ours.ca}&name=cdu-1", 4)
    assert flaws(await read(box)) == [Flaw.TIMEOUT]
    assert "expired" in box.trouble
    await box.close()
    server.close()


async def test_a_serial_line_that_is_plugged_in_again_is_read_again(tmp_path: Path) -> None:
    line = Serial()
    path = tmp_path / "tty"
    path.symlink_to(line.path)  # as /dev/serial/by-id has them
    binding = registers(*range(10))
    link = Links(JumpingClock(), random.Random(1), 0.2)
    transport = ModbusTransport(
        parse_address(f"modbus+serial://{path}/1?baud=115200&parity=none"),
        link,
        binding.profile.modbus,
    )
    box = ProfiledDevice(binding, transport, SystemClock())
    assert set(flaws(await read(box))) == {Flaw.NONE}
    line.unplug()
    path.unlink()
    for _ in range(3):
        assert set(flaws(await read(box))) == {Flaw.TIMEOUT}
    again = Serial()
    path.symlink_to(again.path)
    link.clock.jump()  # type: ignore[attr-defined]
    assert set(flaws(await read(box))) == {Flaw.NONE}
    await box.close()
    again.unplug()
