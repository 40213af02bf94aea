"""agent.yaml and the state file: strict where people write, safe where disks fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drivers.agent.lease import Standing, State
from drivers.agent.settings import parse
from drivers.agent.state import CapStateFile, Saved
from facility.commands import Outcome
from facility.errors import ConfigError
from tests.drivers.agent.rig import Gpus, Rig, in_virtual_time

LEAST = "agent: 1\nnode: n01\nbroker: mqtt://broker\n"


def test_the_least_file_writes_nothing_by_itself() -> None:
    config = parse(LEAST, "f")
    assert config.fallback is None
    assert config.floor is None
    assert config.topic_prefix == "wattkeeper"
    assert config.boot_id_file == "/proc/sys/kernel/random/boot_id"


def test_a_full_file() -> None:
    config = parse(
        "agent: 1\nnode: n01\nbroker: mqtts://broker:8884\ntopic_prefix: site/hall\n"
        "auth: {user: n01, secret: {file: /run/secret}}\ntls: {ca_file: /etc/ca.pem}\n"
        "state_dir: /var/lib/x\nfallback: 0.35 kW\nfloor: 200 W\n",
        "f",
    )
    assert (config.fallback, config.floor) == (350.0, 200.0)
    assert config.auth is not None
    assert config.auth.secret.file == "/run/secret"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (LEAST + "fallback: 350\n", (4, 11), "no unit"),
        (LEAST + "fallbak: 350 W\n", (4, 1), "no known key"),
        (LEAST.replace("mqtt://broker", "broker:1883"), (3, 9), "mqtt://host"),
        (LEAST.replace("agent: 1", "agent: 2"), (1, 8), "1"),
        (LEAST.replace("n01", "n 1"), (2, 7), "pattern"),
        ("agent: 1\nbroker: mqtt://b\n", (1, 1), "missing"),
        (LEAST + "node: n02\n", (4, 1), ""),
        (LEAST + "topic_prefix: a/#\n", (4, 15), "pattern"),
        (LEAST + "fallback: 100 W\nfloor: 200 W\n", (1, 1), "below floor"),
        (LEAST + "tls: {ca_file: x}\n", (1, 1), "mqtts"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "agent.yaml")
    problem = caught.value.problems[0]
    assert (problem.line, problem.column) == place
    assert words in problem.problem


async def test_the_state_file_keeps_what_the_next_run_needs(tmp_path: Path) -> None:
    standing = Standing(
        state=State.HOLDING, owner="c1", epoch=7, hold_s=60.0, spread_s=5.0, fallback_w=350.0,
        commanded_w=512.5, released=False,
    )  # fmt: skip
    limits_w = {"GPU-a": 480.0, "GPU-b": 700.0}
    kept = Saved("boot-1", standing, limits_w, 350.0, frozenset({"GPU-b"}))
    assert await CapStateFile(tmp_path / "new" / "folder").save(kept)
    assert CapStateFile(tmp_path / "new" / "folder").load() == kept
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["caps.json"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"\xff\xff",
        b'{"version": 2}',
        b'{"version": 1, "boot_id": "b", "owner": "", "epoch": 0, "prior_w": {"GPU-a": NaN}}',
        b'{"version": 1, "boot_id": "b", "owner": "", "epoch": 0, "prior_w": {"GPU-a": -1}}',
        b'{"version": 1, "boot_id": "b", "owner": "", "epoch": 0, "prior_w": {}}',
    ],
)
def test_a_damaged_state_file_is_set_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "caps.json").write_bytes(damage)
    assert CapStateFile(tmp_path).load() is None
    assert (tmp_path / "caps.damaged").read_bytes() == damage


def test_without_a_state_file_there_is_nothing_to_trust(tmp_path: Path) -> None:
    assert CapStateFile(tmp_path / "absent").load() is None


class FullDisk:
    """A state directory on a disk that takes nothing."""

    def load(self) -> Saved | None:
        return None

    async def save(self, saved: Saved) -> bool:
        return False


def test_a_full_disk_stops_no_cap_and_is_told() -> None:
    async def work() -> None:
        gpus = Gpus.of(2)
        rig = await Rig.start(gpus, state=FullDisk())
        await rig.device.renew("c1", 1)
        await asyncio.sleep(0.1)
        assert (await rig.device.write(rig.command(300.0, 1))).outcome is Outcome.APPLIED
        await asyncio.sleep(1.1)
        assert rig.device.status is not None
        assert rig.device.status.unsaved

    in_virtual_time(work)


async def test_a_folder_that_cannot_be_made_is_a_failed_save(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert not await CapStateFile(tmp_path / "file" / "state").save(Saved("b"))
