"""Rows that lost something in their middle or at one width: what of them is certain, and what is unknown."""

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_UUIDS = [f"GPU-0a1b2c3d-0000-1111-2222-33334444555{at}" for at in range(2)]
_NAMES = "timestamp, name, uuid, temperature.gpu, temperature.gpu.tlimit, memory.total [MiB]"
_WHOLE = f"2026/07/14 08:12:53.353, NVIDIA H100 80GB HBM3, {_UUIDS[0]}, 59, 26, 81559 MiB"
_LOST = f"2026/07/14 08:12:53.353, NVIDIA H100 80GB HBM3, {_UUIDS[1]}, 26, 81559 MiB"


def test_a_row_of_csv_that_lost_a_value_keeps_what_says_itself_where_it_belongs() -> None:
    whole, lost = gpus_of(parse_smi(f"{_NAMES}\n{_WHOLE}\n{_LOST}\n", "h"))
    assert (lost.name, lost.uuid) == ("NVIDIA H100 80GB HBM3", _UUIDS[1])
    assert whole.temperature_c == 59
    assert isinstance(lost.temperature_c, Missing)
    assert isinstance(lost.memory, Missing)


def test_a_name_that_no_other_row_has_is_unknown_in_a_row_that_lost_its_middle() -> None:
    names = "timestamp, gpu_name, gpu_bus_id, gpu_serial, gpu_uuid, retired_pages.cause"
    row = f"2026/08/12 21:53:45.782, NVIDIA A40, 00000000:0C:00.0, [N/A], {_UUIDS[0]}, Single Bit ECC"
    (gpu,) = gpus_of(parse_smi(f"{names}\n{row}\n", "h"))
    assert (gpu.name, gpu.uuid) == ("NVIDIA A40", _UUIDS[0])
    (gpu,) = gpus_of(parse_smi(f"{names}\n{row.replace('40, 00000000:0C:00.0, [', ' 00, [')}\n", "h"))
    assert isinstance(gpu.name, Missing)


def test_a_row_that_ends_where_the_names_end_may_lack_the_rest_of_its_last_value() -> None:
    row = "2026/07/14 09:00:27.792, 590.48.01, [N/A], 1, NVIDIA H100 80GB HBM3, 81559 MiB"
    names = "timestamp, driver_version, count, vgpu_driver_capability.heterogenous_multivGPU, name"
    width = row.index(" HBM3")
    (gpu,) = gpus_of(parse_smi(f"{names[:width]}\n{row[:width]}\n", "h"))
    assert gpu.name == "NVIDIA H100 80GB..."


def test_a_row_that_starts_with_its_time_is_no_rest_of_the_row_above() -> None:
    names = "timestamp, gpu_name, gpu_bus_id, gpu_serial, gpu_uuid"
    rows = "2026/06/24 10:26:49.980, NVIDIA GeForce RTX 2080 SUPE\n2026/06/24 10:26:49.980, NVID"
    with pytest.raises(BadInput, match="2 values under 5 names"):
        parse_smi(f"{names}\n{rows}", "h")


@pytest.mark.parametrize("name", ["name", "gpu_name", "NVIDIA"])
def test_a_word_of_the_heading_or_the_maker_alone_is_no_name(name: str) -> None:
    (gpu,) = gpus_of(parse_smi(f"index, name, uuid\n0, {name}, {_UUIDS[0]}\n", "h"))
    assert isinstance(gpu.name, Missing)


@pytest.mark.parametrize(
    "name", ["NVIDIA Rubin R200", "NVIDIA X9", "NVIDIA VR200 NVL", "NVIDIA GeForce RTX 7090"]
)
def test_a_name_of_tomorrow_is_kept(name: str) -> None:
    (gpu,) = gpus_of(parse_smi(f"index, name, uuid\n0, {name}, {_UUIDS[0]}\n", "h"))
    assert gpu.name == name


def test_a_uuid_that_runs_into_another_value_is_unknown() -> None:
    cut = f"{_UUIDS[0][:20]}/A]"
    (gpu,) = gpus_of(parse_smi(f"index, name, uuid\n0, NVIDIA A40, {cut}\n", "h"))
    assert isinstance(gpu.uuid, Missing)


def test_the_pid_of_a_gpustat_row_is_its_own_whatever_lines_are_left_below_it() -> None:
    text = (
        "lab3                     Tue Jan 13 09:12:44 2026  560.35.03\n"
        "[0] NVIDIA GeForce RTX 3090 | 61°C,  98 % | 20112 / 24576 MB | kim:python/77123(20098M)\n"
        " └─ 77124 (   0%,     3MB): sh -c x | y\n"
    )
    (gpu,) = gpus_of(parse_smi(text, "h"))
    assert not isinstance(gpu.processes, Missing)
    assert [process.pid for process in gpu.processes] == [77123]


def test_the_rest_of_a_name_below_its_maker_is_no_name() -> None:
    row = f"NVIDIA\n GeForce RTX 2080 SUPER, 00000000:0C:00.0, {_UUIDS[0]}\n"
    (gpu,) = gpus_of(parse_smi(row, "h"))
    assert isinstance(gpu.name, Missing)
    assert gpu.uuid == _UUIDS[0]
