"""Several commands in one file, lists without names of columns, and files that lost their shape."""

import json
import re
from pathlib import Path

import pytest

from preflight.checks.registry import NOT_HELD
from preflight.checks.runner import check_host
from preflight.errors import BadInput
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from preflight.probes.nvidia_smi.capability import find_capability
from preflight.smi_reports import decode_text
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_SMI = Path(__file__).with_name("smi")
_TABLE = (_SMI / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
_LIST = (_SMI / "2xl40s-busy.list.txt").read_text(encoding="utf-8")
_Q = (_SMI / "2xl40s-busy.q.txt").read_text(encoding="utf-8")
_XML = (_SMI / "2xl40s-busy.q.xml").read_text(encoding="utf-8")
_XID = "[ 12.5] NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus.\n"
_ID = "GPU-0000000{}-0000-0000-0000-000000000000"


def gpus(text: str) -> tuple[Gpu, ...]:
    return gpus_of(parse_smi(text, "host"))


def pids(gpu: Gpu) -> list[int] | None:
    return None if isinstance(gpu.processes, Missing) else [each.pid for each in gpu.processes]


def wrapped(text: str, width: int) -> str:
    return "\n".join(
        line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width)
    )


@pytest.mark.parametrize("text", [_XID + _TABLE, _TABLE + "$ dmesg | grep NVRM\n" + _XID])
def test_lines_of_the_kernel_count_beside_a_table(text: str) -> None:
    facts = parse_smi(text, "host")
    assert [pids(gpu) for gpu in gpus_of(facts)] == [pids(gpu) for gpu in gpus(_TABLE)]
    assert not isinstance(facts.kernel_log, Missing)
    assert [xid.code for xid in facts.kernel_log.xids] == [79]


@pytest.mark.parametrize("text", [_LIST + _TABLE, f"$ nvidia-smi\n{_TABLE}$ nvidia-smi -L\n{_LIST}"])
def test_a_table_takes_uuids_from_a_list_of_the_same_gpus(text: str) -> None:
    assert [gpu.uuid for gpu in gpus(text)] == [gpu.uuid for gpu in gpus(_LIST)]
    assert [pids(gpu) for gpu in gpus(text)] == [pids(gpu) for gpu in gpus(_TABLE)]


def test_of_three_commands_the_one_that_says_most_counts() -> None:
    text = f"$ nvidia-smi -L\n{_LIST}$ nvidia-smi -q -x\n{_XML}$ nvidia-smi\n{_TABLE}"
    assert gpus(text) == gpus(_XML)


def test_a_table_takes_nothing_from_a_list_of_other_gpus() -> None:
    assert all(isinstance(gpu.uuid, Missing) for gpu in gpus(_LIST.replace("L40S", "A40") + _TABLE))


def test_what_a_recording_does_not_hold_is_reported_once_for_each_check() -> None:
    facts = parse_smi(_LIST, "host")
    held = check_host(facts, Job(), Expect(), asked_only=True)
    said = [finding.code for finding in held if finding.message == NOT_HELD]
    assert said
    assert len(set(said)) == len(said)
    assert {finding.severity.value for finding in held if finding.message == NOT_HELD} == {"info"}


def test_a_container_takes_processes_from_recordings_before_it_alone() -> None:
    own = re.sub(r"(?m)^\|    \d   N/A.*\n", "", _TABLE)
    assert [pids(gpu) for gpu in gpus(own)] != [pids(gpu) for gpu in gpus(_TABLE)]
    assert [pids(gpu) for gpu in gpus(_TABLE + own)] == [pids(gpu) for gpu in gpus(_TABLE)]
    cut = _TABLE[: _TABLE.index("|   1  ")]
    assert [pids(gpu) for gpu in gpus(own + cut)] == [pids(gpu) for gpu in gpus(own)]
    assert [pids(gpu) for gpu in gpus(_TABLE + own + cut)] == [pids(gpu) for gpu in gpus(_TABLE)]


@pytest.mark.parametrize(
    ("names", "values", "memory"),
    [
        ("memory.total [MiB], memory.used [MiB]", "100 MiB, 40 MiB", (100, 40, None)),
        ("memory.total [MiB], memory.used [MiB]", "100 MiB, 100 MiB", (100, 100, None)),
        ("memory.total [MiB], memory.free [MiB]", "100 MiB, 40 MiB", (100, 60, 40)),
        ("memory.total [MiB], memory.free [MiB]", "100 MiB, 100 MiB", (100, 0, 100)),
        (
            "memory.total [MiB], memory.used [MiB], memory.free [MiB]",
            "100 MiB, 40 MiB, 50 MiB",
            (100, 40, 50),
        ),
    ],
)
def test_memory_in_use_follows_from_what_is_free_and_not_the_other_way_round(
    names: str, values: str, memory: tuple[int, int, int | None]
) -> None:
    (gpu,) = gpus(f"index, name, {names}\n0, NVIDIA A40, {values}\n")
    assert not isinstance(gpu.memory, Missing)
    free = None if isinstance(gpu.memory.free_mib, Missing) else gpu.memory.free_mib
    assert (gpu.memory.total_mib, gpu.memory.used_mib, free) == memory


def test_processes_of_one_query_are_on_the_gpus_of_the_other() -> None:
    text = f"index, name, uuid\n0, NVIDIA A40, {_ID.format(1)}\n1, NVIDIA A40, {_ID.format(2)}\n"
    apps = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{_ID.format(2)}, 4242, python, 9000 MiB\n"
    for both in (text + apps, apps + text):
        assert [pids(gpu) for gpu in gpus(both)] == [[], [4242]]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (("1, NVIDIA A40", "3, NVIDIA L4"), [None, "NVIDIA A40", None, "NVIDIA L4"]),
        (("1, NVIDIA A40", "0, NVIDIA L4"), ["NVIDIA L4", "NVIDIA A40"]),
        (("2, NVIDIA A40", "1, NVIDIA L4"), [None, "NVIDIA L4", "NVIDIA A40"]),
        (("0, NVIDIA A40", "[N/A], NVIDIA L4"), ["NVIDIA A40", "NVIDIA L4"]),
    ],
)
def test_a_query_of_some_gpus_keeps_their_numbers(rows: tuple[str, ...], names: list[str | None]) -> None:
    found = gpus("index, name, memory.total [MiB]\n" + "".join(f"{row}, 46068 MiB\n" for row in rows))
    assert [None if isinstance(gpu.name, Missing) else gpu.name for gpu in found] == names


def test_a_csv_without_names_of_columns_gives_what_its_values_say_and_no_more() -> None:
    rows = [f"{at}, NVIDIA A40, {_ID.format(at)}, 10 MiB, 46068 MiB, 535.54.03, Default" for at in range(2)]
    facts = parse_smi("\n".join(rows) + "\n", "host")
    first, second = gpus_of(facts)
    assert (first.name, second.uuid, first.compute_mode) == ("NVIDIA A40", _ID.format(1), "default")
    assert "535.54.03" in str(facts.driver)
    assert isinstance(first.memory, Missing)
    assert "no names" in first.memory.reason
    assert "46068 MiB" in first.memory.reason
    again = gpus("\n".join(rows * 3))
    assert [gpu.uuid for gpu in again] == [first.uuid, second.uuid]


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA L4\nNVIDIA L4\n",
        "0, NVIDIA L4\n1, NVIDIA L4\n",
        "[2026-11-16 10:00:00] start\nindex, name\n0, NVIDIA L4\n1, NVIDIA L4\n",
        "# as before:\n# name, memory.total [MiB]\n# NVIDIA L4, 23034 MiB\n# NVIDIA L4, 23034 MiB\n",
    ],
)
def test_a_short_csv_names_its_gpus(text: str) -> None:
    assert [gpu.name for gpu in gpus(text)] == ["NVIDIA L4"] * 2


@pytest.mark.parametrize("text", ["10, 46068, 0\n900, 46068, 97\n", "NVIDIA is great\nNVIDIA L4\n"])
def test_numbers_and_prose_are_no_gpus(text: str) -> None:
    with pytest.raises(BadInput):
        parse_smi(text, "host")


def test_a_list_says_which_gpu_is_split_by_mig() -> None:
    slices = "  MIG 1g.6gb     Device  0: (UUID: MIG-1)\n"
    one, two = (f"GPU {at}: NVIDIA A30 (UUID: {_ID.format(at)})\n" for at in range(2))
    first, second = gpus(one + slices + two)
    assert first.mig_enabled is True
    assert isinstance(second.mig_enabled, Missing)


@pytest.mark.parametrize("width", [56, 60, 64, 80])
def test_a_q_that_a_terminal_wrapped_is_read_whole(width: int) -> None:
    assert gpus(wrapped(_Q, width)) == gpus(_Q)


@pytest.mark.parametrize(
    "text",
    [
        wrapped(_XML.replace("\t", "        "), 80),
        wrapped("".join(line.strip() for line in _XML.split("\n")), 80),
        _XML.replace("python3</", "python3 -c 'a && b < 3'</"),
    ],
    ids=["wrapped", "one wrapped line", "signs of a shell"],
)
def test_xml_that_is_not_quite_xml_is_read_whole(text: str) -> None:
    found = gpus(text)
    assert [(gpu.uuid, gpu.memory, pids(gpu)) for gpu in found] == [
        (gpu.uuid, gpu.memory, pids(gpu)) for gpu in gpus(_XML)
    ]


def test_a_q_without_its_blanks_keeps_its_groups() -> None:
    flat = gpus("\n".join(line.strip() for line in _Q.split("\n")))
    assert [(gpu.name, gpu.uuid, gpu.memory, gpu.compute_mode, gpu.processes, gpu.ecc) for gpu in flat] == [
        (gpu.name, gpu.uuid, gpu.memory, gpu.compute_mode, gpu.processes, gpu.ecc) for gpu in gpus(_Q)
    ]


def test_a_q_of_one_of_several_gpus_has_its_number() -> None:
    text = _Q.replace("Attached GPUs                             : 2", "Attached GPUs : 2")
    second = text.replace(text[text.index("\nGPU 0") : text.rindex("\nGPU 0")], "\n")
    found = gpus(second)
    assert [isinstance(gpu.uuid, Missing) for gpu in found] == [True, False]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_the_encoding_of_a_file_does_not_matter(encoding: str) -> None:
    text = _TABLE.replace("|", "│").replace("\n", "\r\n")
    mark = "" if encoding in ("utf-16", "utf-32", "utf-8-sig") else "\ufeff"
    assert gpus(decode_text((mark + text).encode(encoding))) == gpus(_TABLE)


def test_a_notebook_holds_what_its_cell_printed() -> None:
    lines = [line + "\n" for line in _TABLE.split("\n")]
    cells = [{"source": [f"x = {at}\n"], "outputs": []} for at in range(60)]
    for indent in (1, None):
        notebook = json.dumps({"cells": [{"outputs": [{"text": lines}]}, *cells]}, indent=indent)
        assert gpus(notebook) == gpus(_TABLE)


def test_a_table_whose_versions_are_masked_is_read() -> None:
    masked = re.sub(r"(?<=\d{3}\.)[\d.]+ ", "xx ", "\n".join(f"   {line}" for line in _TABLE.split("\n")))
    assert ".xx " in masked
    assert gpus(masked) == gpus(_TABLE)


def test_rows_to_be_remapped_are_counted_or_said() -> None:
    names = ", ".join(
        f"remapped_rows.{each}" for each in ("correctable", "uncorrectable", "pending", "failure")
    )
    for row in ("0, 1, Yes, No", "0, 1, 1, 0"):
        (gpu,) = gpus(f"index, name, {names}\n0, NVIDIA L4, {row}\n")
        assert not isinstance(gpu.remap, Missing)
        assert (gpu.remap.uncorrectable, gpu.remap.pending, gpu.remap.failed) == (1, True, False)


def test_a_driver_that_prints_one_reason_of_heat_alone_says_what_lowers_the_clocks() -> None:
    text = (Path(__file__).parent / "smi" / "2xl40s-busy.q.txt").read_text(encoding="utf-8")
    of_384 = re.sub(r" +(?:HW Thermal|HW Power Brake|Display Clock) .*\n", "", text)
    assert of_384.count("SW Thermal Slowdown") == 2
    assert [gpu.throttle for gpu in gpus(of_384)] == [gpu.throttle for gpu in gpus(text)]
    assert all(isinstance(gpu.throttle, tuple) for gpu in gpus(text))


def test_a_table_without_modes_of_persistence_is_read() -> None:
    assert [gpu.name for gpu in gpus(_TABLE.replace(" On  |", "     |").replace(" Off  |", "      |"))] == [
        gpu.name for gpu in gpus(_TABLE)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (decode_text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "picture"),
        (decode_text(b"\xff\xd8\xff\xe0\0\x10JFIF\0\1"), "picture"),
        ("%PDF-1.4\n", "PDF"),
        ("GPU: 0\n    ASIC:\n        MARKET_NAME: AMD Instinct MI300X\n", "AMD"),
        ("device,Temperature (Sensor edge) (C),GPU use (%)\ncard0,38.0,0\n", "AMD"),
        ("| NPU   Name   | Health | Power(W) |\n", "npu-smi"),
        ("|   0  HL-225              N/A  | 0000:19:00.0     N/A |     0 |\n| AIP-Util |\n", "Gaudi"),
        ("| MX-SMI 2.1.9 |\n| 0   MetaX C500  | 0000:08:00.0 | 0% |\n", "mx-smi"),
        ("|  IX-ML: 3.2.1  |\n| 0    BI-V100    | 00000000:1F:00.0 | 1500MHz |\n", "another maker"),
        ("| CNMON v5.10 |\n| 0   /   MLU370-X8    v1.1.4 |      0000:1a:00.0 | 0%  |\n", "another maker"),
        ('DCGM_FI_DEV_FB_USED{gpu="0"} 40000\n', "DCGM"),
        ('{\n "schema": "gpulaunch.record/1",\n "log": [\n  "kernel: NVRM: Xid (PCI:0000:83:00): 79"\n ]\n}',
         "recording of gpulaunch"),
        ("| GPU ID | Device Information |\n| 0      | Name: NVIDIA H100 |\n", "dcgmi"),
        ("| NVITOP 1.3.2       Driver Version: 550.90.07 |\n", "nvitop"),
        ("RAM 2980/7620MB (lfb 5x4MB) CPU [5%@729] GR3D_FREQ 0%\n", "tegrastats"),
        ("| N/A   31C    P0 |  80000MiB / 81559MiB |      0%      Default |\n", "rows of a table"),
        ("10, 46068, 0\n900, 46068, 97\n", "names of its columns"),
    ],
)  # fmt: skip
def test_another_program_or_file_is_named(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_smi(text, "host")


def test_a_file_of_another_maker_asks_for_one_of_a_host_with_gpus_of_nvidia() -> None:
    with pytest.raises(BadInput) as refused:
        parse_smi("| AMD-SMI 26.0.0 |\n", "host")
    assert refused.value.fix.startswith("save `nvidia-smi -q -x > FILE` on a host with GPUs of NVIDIA")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Orin (nvgpu)", (8, 7)),
        ("NVIDIA Thor", (11, 0)),
        ("NVIDIA GeForce GTX 1630", (7, 5)),
        ("GeForce MX130", (5, 0)),
        ("GeForce MX150", (6, 1)),
        ("NVIDIA GeForce MX570", (8, 6)),
        ("NVIDIA CMP 30HX", (7, 5)),
        ("NVIDIA CMP 170HX", (8, 0)),
        ("Quadro T2000", (7, 5)),
        ("Quadro K620", (5, 0)),
        ("Quadro K600", None),
        ("Tesla M10", (5, 0)),
        ("NVIDIA RTX 500 Ada Generation Laptop GPU", (8, 9)),
        ("GRID A100X-40C", (8, 0)),
        ("NVIDIA A100-SXM...", (8, 0)),
        ("Tesla V100-SXM2...", (7, 0)),
        ("NVIDIA RTX PRO 6000 Blac...", (12, 0)),
        ("NVIDIA A10...", None),
        ("Quadro RTX 600...", None),
        ("NVIDIA GeForce ...", None),
        ("NVIDIA GeForce RTX 6090", None),
        ("NVIDIA R100", None),
    ],
)
def test_a_name_gives_its_capability_or_none(name: str, expected: tuple[int, int] | None) -> None:
    known = find_capability({}, name)
    assert (tuple(known) if isinstance(known, list) else None) == expected


def test_a_table_in_a_long_log_is_found() -> None:
    log = "step 1 loss 2.5 grad 0.3 a line of a training\n" * 50_000
    assert gpus(log + _TABLE) == gpus(_TABLE + log) == gpus(_TABLE)


def test_a_report_of_torch_names_gpus_and_driver() -> None:
    topology = (
        "        GPU0    GPU1    CPU Affinity\nGPU0     X      SYS     0-7\nGPU1    SYS      X      8-15\n"
    )
    text = (
        "PyTorch version: 2.3.0\nGPU models and configuration: \nGPU 0: NVIDIA L4\nGPU 1: NVIDIA A40\n\n"
        f"Nvidia driver version: 535.104.05\nGPU Topology:\n{topology}"
    )
    facts = parse_smi(text, "host")
    assert [gpu.name for gpu in gpus_of(facts)] == ["NVIDIA L4", "NVIDIA A40"]
    assert "535.104.05" in str(facts.driver)
    assert [gpu.name for gpu in gpus("GPU models and configuration: GPU 0: NVIDIA L4\n")] == ["NVIDIA L4"]


def test_the_kernels_own_information_names_gpus() -> None:
    text = "".join(
        f"Model: \t\t NVIDIA A30\nIRQ:   \t\t 18\nGPU UUID: \t {uuid}\nBus Location: \t 0000:{bus}:00.0\n"
        for uuid, bus in ((_ID.format(2), "41"), ("GPU-????????-????", "07"))
    )
    first, second = gpus(text)
    assert (first.pci_bus_id, second.uuid) == ("0000:07:00.0", _ID.format(2))
    assert isinstance(first.uuid, Missing)


def test_a_corrupted_inforom_below_a_table_is_reported() -> None:
    log = parse_smi(_TABLE + "WARNING: infoROM is corrupted at gpu 0000:C1:00.0\n", "host").kernel_log
    assert not isinstance(log, Missing)
    assert "infoROM" in log.other[0]


_ROW = ("0", "NVIDIA L4", "62.50 W", "23034 MiB", "5 MiB")
_NAMES = ("index", "name", "power.draw [W]", "memory.total [MiB]", "memory.used [MiB]")


@pytest.mark.parametrize(
    ("text"),
    [
        "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in (_NAMES, _ROW)),
        "".join(", ".join(f'"{cell}"' for cell in row) + "\n" for row in (_NAMES, _ROW)),
        "".join(";".join(row) + "\n" for row in (_NAMES, _ROW)),
        "".join(";".join(row) + "\r\n" for row in (_NAMES, _ROW)).replace("62.50", "62,50"),
        "".join(";".join(f'"{cell}"' for cell in row) + "\n" for row in (_NAMES, _ROW)),
        "".join("\t".join(row) + "\n" for row in (_NAMES, _ROW)),
        "".join(f"| {' | '.join(row)} |\n" for row in (_NAMES, ("---",) * 5, _ROW)),
        "," + ",".join(_NAMES) + "\n0," + ",".join(_ROW) + "\n",
        '"",' + ",".join(f'"{name}"' for name in _NAMES) + '\n"1",' + ",".join(_ROW) + "\n",
    ],
)
def test_a_csv_that_another_program_wrote_again_is_read(text: str) -> None:
    (gpu,) = gpus(text)
    assert not isinstance(gpu.memory, Missing)
    assert (gpu.name, gpu.power_w, gpu.memory.used_mib) == ("NVIDIA L4", 62.5, 5)
