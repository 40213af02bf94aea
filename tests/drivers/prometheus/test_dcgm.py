"""dcgm-exporter: boards once, blanks never numbers, names before and after the renames."""

from __future__ import annotations

import csv

import pytest

from drivers.catalog import profiles
from drivers.prometheus.blanks import is_blank
from tests.drivers.prometheus.pages import SAMPLES, readings, sample

BLANKS = [
    *(0x7FFFFFF0 + i for i in range(4)),
    *(0x7FFFFFFFFFFFFFF0 + i for i in range(4)),
    *(2**47 + i for i in range(4)),
]


def board(gpu: int, metric: str, value: object, more: str = "") -> bytes:
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100"{more}'
    return f"{metric}{{{labels}}} {value}\n".encode()


def test_a_board_in_four_mig_instances_has_its_power_once() -> None:
    mig = b"".join(
        board(0, "DCGM_FI_DEV_POWER_USAGE", watts, f',GPU_I_PROFILE="1g.6gb",GPU_I_ID="{i}"')
        for i, watts in enumerate((52.636, 52.636, 52.746, 52.746))
    )
    page = mig + board(1, "DCGM_FI_DEV_POWER_USAGE", 100.0)
    told = readings("gpu/dcgm-exporter", page)
    assert told["gpu.0:active_power"] == 52.746
    assert told["gpu.1:active_power"] == 100.0


@pytest.mark.parametrize("blank", BLANKS)
def test_no_blank_of_any_width_is_a_number(blank: int) -> None:
    page = b"".join(
        board(0, metric, blank)
        for metric in (
            "DCGM_FI_DEV_POWER_USAGE",
            "DCGM_FI_DEV_GPU_TEMP",
            "DCGM_FI_DEV_MEMORY_TEMP",
            "DCGM_FI_DEV_SM_CLOCK",
            "DCGM_FI_DEV_GPU_UTIL",
        )
    )
    told = readings("gpu/dcgm-exporter", page)
    assert {v for v in told.values() if v != "REFUSED"} == {"SENTINEL"}


def test_a_counter_of_64_bits_passes_through_the_blanks_of_32() -> None:
    told = readings(
        "gpu/dcgm-exporter", board(0, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0x7FFFFFF2)
    )
    assert told["gpu.0:energy"] == pytest.approx(0x7FFFFFF2 / 3.6e6)
    for blank in BLANKS[4:]:
        page = board(0, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", blank)
        assert readings("gpu/dcgm-exporter", page)["gpu.0:energy"] == "SENTINEL"
    assert not is_blank("dcgm_int64", 2.0**47 + 4.0)
    assert not is_blank(None, 2.0**63)


def test_units_are_ours() -> None:
    page = (
        board(3, "DCGM_FI_DEV_SM_CLOCK", 1980)
        + board(3, "DCGM_FI_DEV_GPU_UTIL", 97)
        + board(3, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 3_600_000)
    )
    told = readings("gpu/dcgm-exporter", page)
    assert told["gpu.3:clock"] == 1.98e9
    assert told["gpu.3:load"] == pytest.approx(0.97)
    assert told["gpu.3:energy"] == pytest.approx(1.0)


def test_two_boards_of_one_number_are_believed_neither() -> None:
    page = board(0, "DCGM_FI_DEV_POWER_USAGE", 300.0).replace(b"GPU-0", b"GPU-x") + board(
        0, "DCGM_FI_DEV_POWER_USAGE", 400.0
    )
    assert readings("gpu/dcgm-exporter", page)["gpu.0:active_power"] == "UNDECODABLE"


def test_a_board_that_fell_off_the_bus_is_missing_not_0_watts() -> None:
    page = board(0, "DCGM_FI_DEV_POWER_USAGE", 300.0)
    told = readings("gpu/dcgm-exporter", page, parameters={"gpus": "2"})
    assert told["gpu.0:active_power"] == 300.0
    assert told["gpu.1:active_power"] == "REFUSED"


def test_new_names_are_read_like_old_ones() -> None:
    old = board(0, "DCGM_FI_DEV_POWER_USAGE", 310.5) + board(0, "DCGM_FI_DEV_GPU_TEMP", 61)
    new = board(0, "DCGM_FI_DEV_BOARD_POWER_WATTS", 310.5) + board(
        0, "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 61
    )
    assert readings("gpu/dcgm-exporter", old) == readings("gpu/dcgm-exporter", new)


def test_the_shared_page_of_dcgm_exporter() -> None:
    told = readings("gpu/dcgm-exporter", sample("dcgm_exporter_sample.txt"))
    assert told["gpu.0:active_power"] == 52.746
    assert told["gpu.0:load"] == 0.0
    assert told["gpu.1:load"] == 0.0
    assert told["memory.0:temperature"] == "SENTINEL"
    assert told["memory.1:temperature"] == "SENTINEL"  # the family is there, board 1 is not in it
    assert told["gpu.1:active_power"] == "SENTINEL"


def test_every_rename_of_a_field_that_we_read_is_known() -> None:
    sample("dcgm_field_renames.csv")
    with (SAMPLES / "dcgm_field_renames.csv").open() as file:
        renamed = {row["old_name"]: row["new_name"] for row in csv.DictReader(file)}
    for entry in profiles()["gpu/dcgm-exporter"].points:
        assert entry.at.prometheus is not None
        names = [series.metric for series in entry.at.prometheus.any_of]
        expected = [names[0], *([renamed[names[0]]] if names[0] in renamed else [])]
        if entry.kind == "load":
            expected = names[:1]  # see the profile
        assert names == expected, entry.part


def test_every_column_of_the_shared_counter_files_that_we_need_is_read() -> None:
    text = sample("dcgm-exporter_default-counters.csv").decode()
    on = {line.split(",")[0].strip() for line in text.splitlines() if not line.startswith("#")}
    read = {
        series.metric
        for entry in profiles()["gpu/dcgm-exporter"].points
        if entry.at.prometheus is not None
        for series in entry.at.prometheus.any_of
    }
    needed = {"POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION", "GPU_TEMP", "MEMORY_TEMP", "SM_CLOCK"}
    assert {f"DCGM_FI_DEV_{name}" for name in needed} <= on & read
