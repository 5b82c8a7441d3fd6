"""What a part of a recording proves is reported, even where the rest of it is not in the file."""

from pathlib import Path

import pytest

from preflight.checks.runner import check_host
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from preflight.smi_reports import parse_hosts
from tests.smi_reading import parse_smi

_CSV = "index, name, memory.used [MiB], memory.total [MiB]\n"
_ERR = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        On  |   00000000:01:00.0 Off |                  N/A |
| 30%   35C    P8             18W /  350W |       1MiB /  24576MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 3090        On  |   00000000:02:00.0 Off |                  N/A |
|ERR!  ERR!    ERR!           ERR! / ERR! |       1MiB /  24576MiB |    ERR!      Default |
+-----------------------------------------+------------------------+----------------------+
|   2  NVIDIA GeForce RTX 3090        On  |   00000000:03:00.0 Off |                  N/A |
|ERR!   36C    P8            ERR! /  350W |       1MiB /  24576MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""


_REMAP = "index, remapped_rows.pending, remapped_rows.failure\n"
_ECC = "index, ecc.errors.uncorrected.volatile.dram, ecc.errors.uncorrected.volatile.sram\n"
_DMON = (
    "# gpu    sm    mem     fb   bar1\n# Idx     %      %     MB     MB\n    0    98     40  39000      5\n"
)


_CUT_LIST = """\
| NVIDIA-SMI 550.90.07   Driver Version: 550.90.07   CUDA Version: 12.4 |
|   0  NVIDIA A100-SXM4-80GB    On  | 00000000:07:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  20000MiB / 81920MiB |   0%  Default |
|   1  NVIDIA A100-SXM4-80GB    On  | 00000000:0F:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  30000MiB / 81920MiB |   0%  Default |
| Processes:                                                            |
|    0   N/A  N/A      1032      C   python                      19990MiB |
|    1   N/A  N/A      1033      C   python                      14990MiB |
|    1   N/A  N/A      10
"""


def found(text: str, *codes: str) -> list[str]:
    """Return what checks of these codes say of GPUs and of the host: code, subject and severity."""
    said = check_host(parse_smi(text, "host"), Job(), Expect(), asked_only=True)
    return [f"{each.code} {each.subject} {each.severity.value}" for each in said if each.code in codes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_CSV + "0, L40S, 3 MiB, 46068 MiB\n1, NVIDIA L40S, 44012 MiB, 46068 MiB\n", "PROC002 gpu1 unknown"),
        ("memory.used [MiB]\n3 MiB\n70112 MiB\n", "PROC002 gpu1 unknown"),
        (_DMON, "PROC002 gpu0 unknown"),
        (_REMAP + "0, No, No\n1, Yes, No\n", "HEAL003 gpu1 critical"),
        ("index, remapped_rows.failure\n0, No\n1, Yes\n", "HEAL003 gpu1 critical"),
        ("index, clocks_throttle_reasons.hw_slowdown\n0, Not Active\n1, Active\n", "HEAL008 gpu1 warning"),
        (_ECC + "0, 0, 0\n1, 3, 0\n", "HEAL004 gpu1 critical"),
        (_ERR, "GPU003 gpu1 critical; GPU003 gpu2 unknown"),
        (_ERR.replace("ERR! /  350W", " N/A /   N/A"), "GPU003 gpu1 critical; GPU003 gpu2 unknown"),
        (_CUT_LIST, "PROC001 gpu0 critical; PROC001 gpu1 unknown; PROC001 gpu1 critical"),
        (_CUT_LIST, "PROC002"),
    ],
)  # fmt: skip
def test_what_a_part_proves_is_reported(text: str, expected: str) -> None:
    code = expected.split(maxsplit=1)[0]
    assert [said for said in found(text, code) if " gpu" in said] == [
        *filter(code.__ne__, expected.split("; "))
    ]


def test_a_cap_of_power_alone_slows_no_gpu() -> None:
    text = "index, clocks_event_reasons.sw_power_cap\n0, Not Active\n1, Active\n"
    assert not [said for said in found(text, "HEAL008") if "warning" in said]


_TABLE = (Path(__file__).with_name("smi") / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
_PENDING = """\
==============NVSMI LOG==============

Driver Version                            : 570.124.06

Attached GPUs                             : 2
GPU 00000000:01:00.0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 1
        Pending                           : Yes
        Remapping Failure Occurred        : No
"""


@pytest.mark.parametrize(
    "text",
    [
        f"$ nvidia-smi\n{_TABLE}$ nvidia-smi -q -d ROW_REMAPPER -i 0\n{_PENDING}",
        f"{_TABLE}\n{_PENDING}",
        f"{_PENDING}\n{_TABLE}",
    ],
)
def test_a_part_of_q_beside_a_table_adds_what_it_says(text: str) -> None:
    alone = found(_TABLE, "PROC001", "MODE002")
    assert alone
    said = [each for each in found(text, "PROC001", "MODE002", "HEAL003") if " gpu" in each]
    assert sorted(said) == sorted([*alone, "HEAL003 gpu0 critical"])


def test_a_command_below_the_longest_line_is_no_rest_of_it() -> None:
    rows = (f"GPU {at}: NVIDIA L40S (UUID: GPU-0a1b2c3d-1111-2222-3333-44445555666{at})\n" for at in range(2))
    text = f"$ nvidia-smi -L\n{''.join(rows)}$ nvidia-smi -q -d ROW_REMAPPER -i 0\n{_PENDING}"
    assert len(parse_smi(text, "host").known_gpus) == 2
    assert found(text, "HEAL003")[0] == "HEAL003 gpu0 critical"


def test_processes_are_not_held_against_memory_of_another_moment() -> None:
    later = _PENDING.partition("    Remapped")[0]
    sizes = "".join(f"        {size:<34}: {mib} MiB\n" for size, mib in (("Total", 46068), ("Used", 45000)))
    text = f"{_TABLE}\n{later}    FB Memory Usage\n{sizes}"
    assert found(text, "PROC002") == found(_TABLE, "PROC002")


def test_what_pdsh_says_of_itself_is_of_no_host() -> None:
    text = (
        "n1: GPU 0: NVIDIA L4 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
        "n2: GPU 0: NVIDIA L4 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556667)\n"
        "n3: ssh: connect to host n3 port 22: No route to host\n"
        "pdsh@login: n3: ssh exited with exit code 255\n"
        "clush: n3: exited with exit code 255\n"
    )
    assert [facts.host for facts in parse_hosts(text, "file")] == ["n1", "n2", "n3"]


def test_bytes_as_python_shows_them_hold_all_gpus() -> None:
    lines = (f"GPU {at}: NVIDIA L4 (UUID: GPU-0a1b2c3d-1111-2222-3333-44445555666{at})\n" for at in range(2))
    shown = repr("".join(lines).encode()) + "\n"
    assert len(parse_smi(shown, "host").known_gpus) == 2


def test_a_heading_about_a_gpu_is_no_line_of_a_monitor() -> None:
    line = "Nov  1 03:12:44 n07 kernel: NVRM: Xid (PCI:0000:c1:00): 48, pid=22110, name=python, DBE\n"
    assert found(f"# GPU trouble on n07\n\n{line}", "HEAL002") == ["HEAL002 0000:c1:00.0 critical"]


def test_what_hides_the_gpus_is_not_sought_in_a_driver_that_the_file_does_not_name() -> None:
    text = "$ nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv\n"
    text += "pid, process_name, used_gpu_memory [MiB]\n1917034, [Not Found], 9736 MiB\n"
    said = check_host(parse_smi(text, "host"), Job(), Expect(), asked_only=True)
    assert [each.fix for each in said if each.code == "PROC001"] == [
        "run the preflight again; if it stays, look on the host itself"
    ]


APPS = "$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader\n"
APPS += "812, [Not Found], 21004 MiB\n"
LIST = "$ nvidia-smi -L\nGPU 0: NVIDIA A30 (UUID: GPU-7c2a2f21-7f60-3b1f-c37e-1f0b4ac7d9a8)\n"


def test_processes_without_their_gpu_are_those_of_the_only_one() -> None:
    (gpu,) = parse_smi(APPS + LIST, "host").known_gpus
    assert not isinstance(gpu.processes, Missing)
    assert [each.pid for each in gpu.processes] == [812]


def test_processes_without_their_gpu_are_named_beside_several() -> None:
    second = LIST.splitlines()[1].replace("GPU 0", "GPU 1").replace("d9a8", "d9a9")
    gpus = parse_smi(f"{APPS}{LIST}{second}\n", "host").known_gpus
    said = [gpu.processes.reason for gpu in gpus if isinstance(gpu.processes, Missing)]
    assert said == ["the file lists pid 812, and not on which GPU"] * 2


def test_processes_are_on_the_gpu_whose_bus_they_name() -> None:
    text = "$ nvidia-smi --query-gpu=index,pci.bus_id --format=csv\nindex, pci.bus_id\n"
    text += "0, 00000000:17:00.0\n1, 00000000:65:00.0\n"
    text += "$ nvidia-smi --query-compute-apps=gpu_bus_id,pid,used_memory --format=csv\n"
    text += "gpu_bus_id, pid, used_gpu_memory [MiB]\n00000000:65:00.0, 4242, 30000 MiB\n"
    gpus = parse_smi(text, "host").known_gpus
    found = [[each.pid for each in gpu.processes] for gpu in gpus if not isinstance(gpu.processes, Missing)]
    assert found == [[], [4242]]


@pytest.mark.parametrize(("free", "used"), [(1400, 39010), (1000, None), (2000, None)])
def test_sizes_add_up_but_for_what_a_person_rounds(free: int, used: int | None) -> None:
    sizes = {"Total": 40960, "Reserved": 500, "Used": 39010, "Free": free}
    text = "==============NVSMI LOG==============\n\nAttached GPUs : 1\n"
    text += "GPU 00000000:1B:00.0\n    FB Memory Usage\n"
    text += "".join(f"        {name:33} : {size} MiB\n" for name, size in sizes.items())
    (gpu,) = parse_smi(f"{text}    Compute Mode : Default\n", "host").known_gpus
    if isinstance(gpu.memory, Missing):
        assert gpu.memory.reason == "the sizes of its memory in the file do not add up to the total"
        assert used is None
    else:
        assert gpu.memory.used_mib == used
