"""Outputs as narrow terminals and programs that draw on them leave them; GPUs without their first line."""

import pytest

from preflight.checks.runner import check_host
from preflight.errors import BadInput
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from preflight.smi_reports import parse_hosts
from preflight.smi_reports.screens import draw_screens
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |                    0 |
| N/A   61C    P0            682W /  700W |    3645MiB / 143771MiB |     98%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def _watched(table: str, width: int, later: str) -> str:
    """Return what `watch` sends to a terminal: blanks as moves of the cursor, then what has changed."""
    pieces = [line[at : at + width] for line in table.split("\n") for at in range(0, len(line), width)]
    moved = (piece.replace("    ", "\x1b[4C") for piece in pieces)
    shown = "".join(f"\x1b[{at};1H{piece}" for at, piece in enumerate(moved, 3))
    return (
        f"$ watch nvidia-smi\r\n\x1b[?1049h\x1b(B\x1b[m\x1b[H\x1b[2JEvery 2.0s{shown}{later}\x1b[?1049l\r\n$ "
    )


@pytest.mark.parametrize("width", [80, 100])
def test_the_last_state_of_a_watched_table_is_read(width: int) -> None:
    row = 3 + (8 * 2 if width == 80 else 8)
    (gpu,) = gpus_of(parse_smi(_watched(_TABLE, width, f"\x1b[{row};9H57C\x1b[{row};30H99"), "h"))
    assert (gpu.name, gpu.pci_bus_id, gpu.compute_mode) == ("NVIDIA H200", "0000:00:06.0", "default")
    assert not isinstance(gpu.memory, Missing)
    assert (gpu.memory.used_mib, gpu.temperature_c, gpu.power_w) == (3645, 57, 992.0)


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ("ab\x1b[31mc", "ab\x1b[31mc"),  # colours alone
        ("\x1b[1;1Habc\x1b[1;2Hx\x1b[2;3Hy", "axc\n  y\n"),
        ("\x1b[2dab\x1b[1Ac\x1b[1Bd\x1b[2De", "  c\nabed\n"),
        ("\x1b[1;1Ha-\x1b[3bz\x1b[1;2H\x1b[Kq", "aq\n"),
        ("\x1b[1;1Habcdef\x1b[1;2H\x1b[2P\x1b[1@\x1b[5G\x1b[1X", "a de\n"),
        ("\x1b[1;1Hab\r\ncd\x1b[2J\x1b[1;1Hx", "ab\ncd\nx\n"),  # an earlier state
        ("\x1b[1;1Hab\x1b[1Lcd\x1b[2Je", "ab\ne"),
        ("\x1b[1;1Hab\x1b[9999d\x1b]0;title\x07c", "ab\n  c\n"),
        ("ab\ncd\x1b[1;1Hx\x1b[?1049h\x1b[1;1Hy", "ab\ncd\x1b[1;1Hxy\n"),  # below what a shell printed
        ("\x1b[9;9H" + 1005 * "\n" + "ab\ncd", "ab\ncd\n"),
    ],
)
def test_a_screen_is_what_was_drawn_last(sent: str, lines: str) -> None:
    assert draw_screens(sent) == lines


@pytest.mark.parametrize("sent", ["\x1b[999;1Hx\x1b[?1049h", "\x1b[1;1H\x1b[;x", "\x1b[1;1H\x1b[999@x"])
def test_a_screen_is_no_larger_than_a_terminal(sent: str) -> None:
    assert len(draw_screens(sent * 3000)) < 3 * len(sent) * 3000


def test_a_line_longer_than_any_value_is_of_no_gpu() -> None:
    (gpu,) = gpus_of(parse_smi(f"{'x' * 200_000}\n0, NVIDIA H200, 3645 MiB, 143771 MiB\n", "h"))
    assert gpu.name == "NVIDIA H200"


@pytest.mark.parametrize("cleared", ["\x1b[H\x1b[2J", "\x1b[H\x1b[J", "\x1b[?1049h\x1b[H"])
def test_a_program_that_draws_takes_nothing_from_what_a_shell_printed(cleared: str) -> None:
    top = f"$ top\n{cleared}top - 10:00\x1b[K\x1b[2;1H{20 * '  1 root'}\x1b[24;1H\n$ "
    listed = "".join(f"line {at}\n" for at in range(1100))
    for text in (f"$ nvidia-smi\n{_TABLE}{top}", f"{top}ls\n{listed}$ nvidia-smi\n{_TABLE}"):
        (gpu,) = gpus_of(parse_smi(text, "h"))
        assert (gpu.name, gpu.pci_bus_id, gpu.temperature_c) == ("NVIDIA H200", "0000:00:06.0", 61.0)


_PMON = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command 
# Idx           #    C/G      %      %      %      %      %      %    name 
    0        847   M+C      -      -      -      -      -      -    python3        
    0        891     C     71      2      -      -      -      -    nvidia-cuda-mps
    1          -     -      -      -      -      -      -      -    -              
"""  # noqa: W291 - as pmon prints it


@pytest.mark.parametrize("width", [40, 64, 66, 70, 76, 80, 84, 120])
def test_a_list_of_pmon_is_read_at_each_width(width: int) -> None:
    pieces = [line[at : at + width] for line in _PMON.split("\n") for at in range(0, len(line) or 1, width)]
    busy, idle = gpus_of(parse_smi("\n".join(pieces), "h"))
    assert idle.processes == ()
    assert not isinstance(busy.processes, Missing)
    assert [(each.pid, each.kind, each.name) for each in busy.processes] == [
        (847, "mps", "python3"),
        (891, "mps", "nvidia-cuda-mps"),
    ]


def test_a_saved_list_of_pmon_names_the_clients_of_mps_and_no_host_to_clean() -> None:
    found = check_host(parse_smi(_PMON, "pmon"), Job(), Expect())
    held = [each for each in found if each.code == "PROC001"]
    assert [("pid 847" in each.message, "clean-zombies HOST" in each.fix) for each in held] == [(True, True)]


def test_a_name_without_the_blanks_behind_it_is_cut_and_one_behind_values_is_refused() -> None:
    busy, _ = gpus_of(parse_smi(_PMON.replace("python3        ", "pyt"), "h"))
    assert not isinstance(busy.processes, Missing)
    assert busy.processes[0].name == "pyt..."
    with pytest.raises(BadInput, match="no values"):
        parse_smi(_PMON.replace("jpg    ofa", "          "), "h")


def _memory(used: int, pid: int) -> str:
    return f"""\
    FB Memory Usage
        Total                                          : 143771 MiB
        Reserved                                       : 616 MiB
        Used                                           : {used} MiB
        Free                                           : {143155 - used} MiB
    Processes
        Process ID                        : {pid}
            Type                          : C
            Name                          : python3
            Used GPU Memory               : {used} MiB
"""


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_gpu_whose_first_line_is_lost_keeps_its_number(lost: int) -> None:
    titles = [f"GPU 00000000:{at}7:00.0\n" if at != lost else "" for at in range(3)]
    rows = [f"{title}{_memory(1000 + at, 10 + at)}\n" for at, title in enumerate(titles)]
    head = "==============NVSMI LOG==============\n\nAttached GPUs                       : 3\n"
    gpus = gpus_of(parse_smi(head + "".join(rows), "h"))
    assert [
        [each.pid for each in gpu.processes] for gpu in gpus if not isinstance(gpu.processes, Missing)
    ] == [[10], [11], [12]]
    assert [isinstance(gpu.pci_bus_id, Missing) for gpu in gpus] == [at == lost for at in range(3)]


def test_doubled_lines_of_one_gpu_are_of_no_other() -> None:
    head = "==============NVSMI LOG==============\n\nAttached GPUs                       : 3\n"
    doubled = "".join(f"{line}\n{line}\n" for line in _memory(9, 10).split("\n"))
    gpus = gpus_of(parse_smi(f"{head}GPU 00000000:17:00.0\n{doubled}", "h"))
    assert [isinstance(gpu.memory, Missing) for gpu in gpus] == [False, True, True]


@pytest.mark.parametrize(("free", "used"), [(44_000, 1468), (45_800, None)])
def test_what_is_in_use_is_never_less_than_nothing(free: int, used: int | None) -> None:
    names = "index, name, memory.total [MiB], memory.free [MiB], memory.reserved [MiB]"
    (gpu,) = gpus_of(parse_smi(f"{names}\n0.0, NVIDIA L40S, 46068 MiB, {free} MiB, 600 MiB\n", "h"))
    assert (None if isinstance(gpu.memory, Missing) else gpu.memory.used_mib) == used


def test_a_process_of_a_doubled_line_is_one() -> None:
    listed = _memory(9, 10).partition("Processes\n")[2]
    head = "==============NVSMI LOG==============\n\nAttached GPUs                       : 1\n"
    (gpu,) = gpus_of(parse_smi(f"{head}GPU 00000000:17:00.0\n{_memory(9, 10)}{listed}\n", "h"))
    assert not isinstance(gpu.processes, Missing)
    assert len(gpu.processes) == 1


@pytest.mark.parametrize(
    "row",
    [
        "2026/11/27 19:14:21.825, 3645 MiB, 0, 99 %",
        "2026/11/27 19:14:21.825, 0ubuntu@gpu-1:~$, 3645 MiB, 99 %",
    ],
)
def test_a_row_with_another_value_under_index_is_no_gpu(row: str) -> None:
    names = "timestamp, index, memory.used [MiB], utilization.gpu [%]"
    with pytest.raises(BadInput, match="under index"):
        parse_smi(f"{names}\n2026/11/27 19:14:20.825, 0, 3645 MiB, 99 %\n{row}\n", "h")


def test_more_than_all_of_a_gpu_is_no_use() -> None:
    (gpu,) = gpus_of(parse_smi("index, name, utilization.gpu [%]\n0, NVIDIA A40, 616\n", "h"))
    assert isinstance(gpu.utilization_percent, Missing)


def test_power_without_its_unit_is_no_version_beside_one() -> None:
    row = "0, NVIDIA H200, 580.159.04, Default, 143771, 3645, 61, 683.66, 700.00"
    driver = parse_smi(f"{row}\n", "h").driver
    assert not isinstance(driver, Missing)
    assert driver.version == "580.159.04"


def test_a_host_that_ssh_did_not_reach_is_a_host() -> None:
    refused = "ssh: connect to host h200-b port 22: Connection timed out"
    found = parse_hosts(f"==== h200-a ====\n{_TABLE}\n==== h200-b ====\n{refused}\n", "h")
    assert [(each.host, isinstance(each.gpus, Missing)) for each in found] == [
        ("h200-a", False),
        ("h200-b", True),
    ]
