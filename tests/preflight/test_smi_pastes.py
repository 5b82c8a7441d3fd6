"""Pieces of recordings as pages and threads hold them: what they show is read, and nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_UUID = "GPU-e18afb8d-1627-f8ff-2ba3-c05c5a8e9e67"
_ROWS = """    |   0  NVIDIA H100 80G...  Off  | 00000000:04:00.0 Off |                   On |
    | N/A   33C    P0    70W / 700W |     39MiB / 81559MiB |     N/A      Default |
    |                               |                      |              Enabled |
    +-------------------------------+----------------------+----------------------+
    |   1  NVIDIA H100 80G...  Off  | 00000000:05:00.0 Off |                   On |
    | N/A   32C    P0    69W / 700W |     39MiB / 81559MiB |     N/A      Default |
"""
_MONITORS = """$ nvidia-smi dmon
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0     19     41      -     0      0      0      0    405    210
$ nvidia-smi pmon
# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name
    0      22010     C    98    56     -     -   python3
    0      22011     C    98    5"""
_LIST_AND_CUT_TABLE = f"""$ nvidia-smi -L
GPU 0: NVIDIA A100 (UUID: {_UUID})
$ nvidia-smi
| NVIDIA-SMI 535.216.01             Driver Version: 535.216.01   CUDA Version: 12.2     |
|=============
"""
_TABLE_OF_L4 = """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.148.08             Driver Version: 570.148.08     CUDA Version: 12.8     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA L4                      On  |   00000000:3C:00.0 Off |                    0 |
| N/A   60C    P0             36W /   72W |   20304MiB /  23034MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
_OLD_NVITOP = """| NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |
+-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
+===============================+======================+======================+====================+
|   0  Tesla P40           On   | 00000000:3B:00.0 Off |                    0 | MEM: 0.0%          |
| MAX   20C    P8     9W / 250W |        0B / 22.38GiB |      0%      Default | UTL: 0%            |
"""
_LOG_AND_ROTATED_LOG = "".join(
    f"timestamp, index, temperature.gpu\n2024/06/03 10:00:{second}.123, 0, {degrees}\n"
    for second, degrees in (("09", 64), ("01", 41))
)


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        pytest.param(
            " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\n" + _TABLE_OF_L4,
            "temperature_c",
            [60, None],
            id="a table below a matrix that is indented",
        ),
        pytest.param(
            _TABLE_OF_L4.split("\n")[1] + f"\n\nGPU 0: NVIDIA A2 (UUID: {_UUID})\n",
            "uuid",
            [_UUID],
            id="the first line of a table beside a list",
        ),
        pytest.param(_OLD_NVITOP, "memory", [22917], id="the first versions of nvitop"),
        pytest.param(_LOG_AND_ROTATED_LOG, "temperature_c", [64], id="a log, and behind it what it was"),
        pytest.param(
            "GPU 00000000:01:00.0\n    Temperature\n        GPU Current Temp      : 67 C    <===\n",
            "temperature_c",
            [67],
            id="an arrow behind a value",
        ),
        pytest.param(
            "    Note: drained\nGPU 00000000:01:00.0\n    Temperature\n        GPU Current Temp : 67 C\n",
            "temperature_c",
            [67],
            id="indented notes",
        ),
        pytest.param(
            "# gpu   pid  type  sm  command\n    0     7     C   9  python3    1     8     C   9  sh\n",
            "index",
            [0, 1],
            id="processes whose rows are joined",
        ),
        pytest.param(_ROWS, "temperature_c", [33, 32], id="indented rows without their head"),
        pytest.param(_ROWS, "mig_enabled", [True, None], id="rows that are cut within a GPU"),
        pytest.param(_MONITORS, "temperature_c", [41], id="dmon and pmon"),
        pytest.param(f"GPU 0: NVIDIA A2 (UUID: {_UUID}\n", "uuid", [_UUID], id="a UUID without its bracket"),
        pytest.param(
            f"GPU 0: NVIDIA A2 (UUID: {_UUID})\nGPU 1: NVIDIA A2 (UUID:",
            "uuid",
            [_UUID, None],
            id="a cut list",
        ),
        pytest.param(_LIST_AND_CUT_TABLE, "uuid", [_UUID], id="a list beside a table that is cut"),
        pytest.param(
            "name, temperature.gpu, power.draw [W]\n\nTesla T4, 41, 30.1\n\nit shows this, where to look?\n",
            "temperature_c",
            [41],
            id="a sentence below a CSV",
        ),
        pytest.param(
            "GPU models and configuration:\nGPU 0: NVIDIA A100-SXM4-80GB\nMIG 3g.40gb     Device  0:\n\n",
            "mig_enabled",
            [True],
            id="collect_env with MIG",
        ),
        pytest.param(
            "GPU 00000000:01:00.0\n    Memory Usage\n"
            "        Total : 4799 MB\n        Used : 12 MB\n        Free : 4787 MB\n",
            "memory",
            [4799],
            id="memory as drivers before 319 call it",
        ),
        pytest.param(
            f"<p>GPU 00000000:01:00.0<br>\nProduct Name : A2<br>\n<strong>GPU UUID : {_UUID}</strong></p>",
            "uuid",
            [_UUID],
            id="bold words of a page",
        ),
    ],
)
def test_a_piece_of_a_recording_says_what_it_shows(text: str, field: str, values: list[Any]) -> None:
    found = [getattr(gpu, field) for gpu in gpus_of(parse_smi(text, "h"))]
    found = [getattr(value, "total_mib", value) for value in found]
    assert [None if isinstance(value, Missing) else value for value in found] == values


_LOOP = """timestamp, pci.bus_id, temperature.gpu
2026/06/02 10:00:05.003, 00000000:25:00.0, 32
2026/06/02 10:00:05.000, 00000000:01:00.0, 52
2026/06/02 10:00:00.003, 00000000:25:00.0, 31
"""
_ROW_OF_CSV = """index, name, memory.total, memory.used, memory.free, utilization.gpu [%]
2, A100, 81920 MiB, 70000 MiB, 11920 MiB, 0 %
"""
_ASKED = """$ nvidia-smi -i 3 -q -d ROW_REMAPPER
==============NVSMI LOG==============
GPU 00000000:65:00.0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
"""


@pytest.mark.parametrize(
    ("text", "temperatures", "memory", "remapped"),
    [
        pytest.param(_LOOP, [52, 32], [None] * 2, [None] * 2, id="rows of a loop out of order"),
        pytest.param(_ROW_OF_CSV, [None] * 3, [None, None, 70000], [None] * 3, id="names without units"),
        pytest.param(_ASKED, [None] * 4, [None] * 4, [None, None, None, 2], id="one GPU that was asked"),
    ],
)
def test_values_belong_to_the_gpu_that_they_are_of(
    text: str, temperatures: list[int | None], memory: list[int | None], remapped: list[int | None]
) -> None:
    gpus = gpus_of(parse_smi(text, "h"))
    assert [
        None if isinstance(gpu.temperature_c, Missing) else gpu.temperature_c for gpu in gpus
    ] == temperatures
    assert [None if isinstance(gpu.memory, Missing) else gpu.memory.used_mib for gpu in gpus] == memory
    assert [None if isinstance(gpu.remap, Missing) else gpu.remap.uncorrectable for gpu in gpus] == remapped


def test_a_process_whose_row_is_cut_behind_its_pid_is_listed() -> None:
    (gpu,) = gpus_of(parse_smi(_MONITORS, "h"))
    assert not isinstance(gpu.processes, Missing)
    assert [process.pid for process in gpu.processes] == [22010, 22011]


def test_two_gpus_with_one_uuid_have_none_and_say_why() -> None:
    text = f"GPU 0: NVIDIA A2 (UUID: {_UUID})\nGPU 1: NVIDIA A2 (UUID: {_UUID})\n"
    reasons = {str(gpu.uuid) for gpu in gpus_of(parse_smi(text, "h"))}
    assert len(reasons) == 1
    assert "the same UUID for another GPU" in reasons.pop()


@pytest.mark.parametrize("mark", ["", "> ", "> > "])
@pytest.mark.parametrize(
    "date", ["[Fri Aug 30 11:43:09 2024]", "août 25 19:38:04 n1 kernel:", "[  12.345678]"]
)
def test_a_kernel_log_is_known_in_quotes_and_other_languages(mark: str, date: str) -> None:
    line = f"{mark}{date} NVRM: Xid (PCI:0000:cb:00): 94, pid=1, Contained\n"
    facts = parse_smi(line + line.replace("12\t", "13\t"), "h")
    assert not isinstance(facts.kernel_log, Missing)
    assert [xid.code for xid in facts.kernel_log.xids] == [94, 94]


@pytest.mark.parametrize("mark", [lambda at: "> ", lambda at: ">", lambda at: f"{at:6}\t"])
@pytest.mark.parametrize(
    "text",
    [
        "memory.total [MiB], memory.used [MiB]\n12288 MiB, 11545 MiB\n",
        f"4, NVIDIA L4, {_UUID}, 610.43.02\n",
        f"GPU 00000000:01:00.0\n    Product Name : NVIDIA A2\n    GPU UUID : {_UUID}\n",
        f"GPU 3: NVIDIA A2 (UUID: {_UUID})\n         Link 0: 25.781 GB/s\n",
    ],
)
def test_a_mark_of_every_line_is_taken_away_whatever_the_text_is(
    text: str, mark: Callable[[int], str]
) -> None:
    lines = f"{text}{text}".splitlines() if text.startswith("4") else text.splitlines()
    marked = "".join(f"{mark(at)}{line}\n" for at, line in enumerate(lines, 1))
    assert parse_smi(marked, "h").gpus == parse_smi("\n".join(lines), "h").gpus


@pytest.mark.parametrize("mark", [">", "[rank0]: ", "> "])
def test_a_line_of_marks_alone_is_no_recording(mark: str) -> None:
    with pytest.raises(BadInput, match="unrecognised"):
        parse_smi(mark * 3000 + "NVRM: x\n", "h")


def test_a_bus_that_lspci_lists_twice_has_one_gpu() -> None:
    listed = "04:00.0 VGA compatible controller{}: NVIDIA Corporation Device {}(rev a1)\n"
    text = listed.format("", "1b06 ") + listed.format(" [0300]", "[10de:1b06] ")
    facts = parse_smi(text, "h")
    assert not isinstance(facts.pci_gpus, Missing)
    assert [(gpu.bus_id, gpu.device_id) for gpu in facts.pci_gpus] == [("0000:04:00.0", "1b06")]


def test_which_gpus_a_part_holds_is_only_said_where_it_says_so() -> None:
    text = "NVSMI LOG=\n\nAttached GPUs : 2\nGPU 00000000:0F:00.0\n    Compute Mode : Default\n"
    _, missing = gpus_of(parse_smi("=====" + text, "h"))
    assert missing.name == Missing(
        "the host has 2 GPUs, and the file holds 1 GPU; which is not known", "not-asked"
    )


def test_what_is_wrong_with_an_inforom_is_read_alone() -> None:
    log = parse_smi("WARNING: infoROM is corrupted at gpu 0000:17:00.0\n", "h").kernel_log
    assert not isinstance(log, Missing)
    assert len(log.other) == 1
