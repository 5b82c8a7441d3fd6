"""Saved outputs of nvidia-smi that are cut, or where one GPU says little."""

from contextlib import suppress
from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_HEAD = """| NVIDIA-SMI 550.90.07   Driver Version: 550.90.07   CUDA Version: 12.4 |
|   0  NVIDIA A100-SXM4-80GB    On  | 00000000:07:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  20000MiB / 81920MiB |   0%  Default |
|   1  NVIDIA A100-SXM4-80GB    On  | 00000000:0F:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  30000MiB / 81920MiB |   0%  Default |
| Processes:                                                            |
"""
_ROW_0 = "|    0   N/A  N/A      1032      C   python                      19990MiB |\n"
_EDGE = "+-----------------------------------------------------------------------+\n"


@pytest.mark.parametrize(
    ("rows", "holding", "whole"),
    [
        (_ROW_0 + _EDGE, [[(1032, 19990)], []], [True, True]),
        (
            _ROW_0 + "|    1   N/A  N/A      2044      C   python3 -m a.very\n",
            [[1032], [2044]],
            [True, False],
        ),
        (_ROW_0 + "|    1   N/A  N/A      2044\n", [[1032], None], [True, True]),
        (_ROW_0 + "|    1   N/A  N/A      2044      C   python3\n" + _EDGE, [[1032], [2044]], [True, True]),
        (_ROW_0, [[1032], None], [False, True]),
        ("", [None, None], [True, True]),
    ],
    ids=["whole", "a cut cell", "a cut row", "a row without memory", "no edge", "no rows"],
)
def test_a_cut_list_of_processes_keeps_every_row_and_the_memory(
    rows: str, holding: list[list[object] | None], whole: list[bool]
) -> None:
    found = gpus_of(parse_smi(_HEAD + rows, "host"))
    assert [gpu.name for gpu in found] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert [gpu.memory.used_mib for gpu in found if not isinstance(gpu.memory, Missing)] == [20000, 30000]
    for gpu, wanted, is_whole in zip(found, holding, whole, strict=True):
        assert bool(gpu.processes_cut) is not is_whole
        pids = None if wanted is None else [each[0] if isinstance(each, tuple) else each for each in wanted]
        assert (None if isinstance(gpu.processes, Missing) else [p.pid for p in gpu.processes]) == pids
    reasons = [
        str(p.used_mib) for gpu in found if not isinstance(gpu.processes, Missing) for p in gpu.processes
    ]
    assert all("cut" in reason or reason.isdigit() for reason in reasons)


_CSV = (
    "name, memory.used [MiB], memory.free [MiB], memory.total [MiB]\nNVIDIA L40S, 12 MiB, 9 MiB, 46068 MiB\n"
)


@pytest.mark.parametrize(
    ("text", "names", "totals"),
    [
        (
            _CSV + "[GPU is lost]\nNVIDIA L40S, 12 MiB, 9 MiB, 46068 MiB\n",
            ["L40S", "lost", "L40S"],
            [46068, "lost", 46068],
        ),
        (_CSV + "NVIDIA L40S, 12 MiB, 9 M", ["L40S", "L40S"], [46068, "cut"]),
    ],
    ids=["a lost GPU", "a row cut at the end"],
)
def test_one_row_that_says_little_swallows_no_other(
    text: str, names: list[str], totals: list[int | str]
) -> None:
    found = gpus_of(parse_smi(text, "host"))
    assert all(name in str(gpu.name) for gpu, name in zip(found, names, strict=True))
    memory = [gpu.memory for gpu in found]
    assert all(str(total) in str(m) for m, total in zip(memory, totals, strict=True))


def test_a_lost_gpu_of_a_list_keeps_its_number_and_the_others() -> None:
    text = (
        "GPU 0: NVIDIA H100 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445551)\n"
        "Unable to determine the device handle for gpu 0000:05:00.0: GPU is lost.\n"
        "GPU 2: NVIDIA H100 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445553)\n"
    )
    found = gpus_of(parse_smi(text, "host"))
    assert [(gpu.index, isinstance(gpu.uuid, Missing)) for gpu in found] == [
        (0, False),
        (1, True),
        (2, False),
    ]
    assert isinstance(found[1].uuid, Missing)
    assert found[1].uuid.code == "gpu-lost"


def test_desktop_programs_and_the_mps_server_hold_nothing() -> None:
    rows = (
        "|    0   N/A  N/A      2140    C+G   C:\\Windows\\System32\\dwm.exe      N/A |\n"
        "|    0   N/A  N/A      2141    C+G   blender                       900MiB |\n"
        "|    0   N/A  N/A      2142      C   nvidia-cuda-mps-server         28MiB |\n"
        "|    0   N/A  N/A      2143    M+C   python                        700MiB |\n"
    )
    found = gpus_of(parse_smi(_HEAD + rows + _EDGE, "host"))[0].processes
    assert not isinstance(found, Missing)
    assert [(p.pid, p.kind) for p in found] == [
        (2140, "graphics"),
        (2141, "compute"),
        (2142, "mps"),
        (2143, "mps"),
    ]


_TABLE = """Mon Sep 18 22:56:55 2023
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   31C    P0    62W / 400W |  20000MiB / 81920MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM...  On   | 00000000:0F:00.0 Off |                    0 |
| N/A   31C    P0    62W / 400W |  20000MiB / 81920MiB |      0%      Default |
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [(9, "at least 2 GPUs"), (7, "at least 2 GPUs"), (6, "at least 1 GPU"), (4, "at least 1 GPU")],
)
def test_a_table_that_ends_among_its_gpus_says_that_there_may_be_more(lines: int, told: str) -> None:
    found = gpus_of(parse_smi("".join(_TABLE.splitlines(keepends=True)[:lines]), "host"))
    assert {str(gpu.processes) for gpu in found if told in str(gpu.processes)} == {str(found[0].processes)}


@pytest.mark.parametrize(
    "pasted",
    [
        _TABLE.replace("\n", "\r\n"),
        _TABLE.replace("\n", "\r"),
        _TABLE.replace("|", "\x1b[1m|\x1b(B\x1b[m"),
        "> " + _TABLE.replace("\n", "\n> "),
        "    " + _TABLE.replace("\n", "\n    "),
        f"Every 2.0s: nvidia-smi   node-1: Mon\n\n{_TABLE}{_TABLE.replace('20000MiB', '21000MiB')}",
    ],
    ids=["Windows", "old Mac", "colours", "quoted", "indented", "watched"],
)
def test_a_pasted_table_is_read_through_what_stands_around_it(pasted: str) -> None:
    found = gpus_of(parse_smi(pasted, "host"))
    assert [gpu.name for gpu in found] == ["NVIDIA A100-SXM..."] * 2


def test_tables_of_two_hosts_in_one_file_are_not_taken_for_one_host() -> None:
    with pytest.raises(BadInput, match="several hosts: host-1, host-2"):
        parse_smi(_TABLE + _TABLE.replace(":07:", ":17:"), "host")


_UNREACHABLE = "Unable to determine the device handle for GPU{}: 0000:07:00.0: Unknown Error\n"
_WIDE = """+-----------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07   Driver Version: 550.90.07   CUDA Version: 12.4 |
|   {}  NVIDIA A100-SXM4-80GB    On  | 00000000:07:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  20000MiB / 81920MiB |   0%  Default |
|   {}  NVIDIA A100-SXM4-80GB    On  | 00000000:0F:00.0 Off |            0 |
| N/A   31C    P0     62W / 400W    |  30000MiB / 81920MiB |   0%  Default |
| Processes:                                                            |
|    {}   N/A  N/A      1032      C   python                      19990MiB |
+-----------------------------------------------------------------------+
"""
_LATER = _WIDE.format(1, 2, 2).replace(":0F:", ":1F:").replace("00000000:07", "00000000:0F")


@pytest.mark.parametrize(
    ("text", "lost", "holder"),
    [
        (_UNREACHABLE.format(0) + _WIDE.format(1, 2, 2), 0, 2),
        (_WIDE.format(0, 2, 2) + _UNREACHABLE.format(1), 1, 2),
        (_UNREACHABLE.format(2).replace(":07:", ":9A:") + _WIDE.format(0, 1, 1), 2, 1),
        (_WIDE.format(0, 1, 0) + _UNREACHABLE.format(0) + _LATER, 0, 2),
    ],
    ids=["before the others", "between them", "behind them", "lost between two tables"],
)
def test_a_gpu_without_a_row_is_lost_and_the_others_keep_their_numbers(
    text: str, lost: int, holder: int
) -> None:
    found = gpus_of(parse_smi(text, "host"))
    assert [isinstance(gpu.name, Missing) for gpu in found] == [index == lost for index in range(3)]
    name = found[lost].name
    assert isinstance(name, Missing)
    assert name.code == "gpu-lost"
    held = [[] if isinstance(gpu.processes, Missing) else [p.pid for p in gpu.processes] for gpu in found]
    assert held == [[1032] if index == holder else [] for index in range(3)]


def test_a_gpu_that_was_lost_before_the_table_that_lists_it_is_counted_once() -> None:
    lost = "Unable to determine the device handle for GPU 0000:0F:00.0: GPU is lost.  Reboot\n the system\n"
    found = gpus_of(parse_smi(lost + _WIDE.format(0, 1, 1), "host"))
    assert [gpu.pci_bus_id for gpu in found] == ["0000:07:00.0", "0000:0f:00.0"]


def test_a_list_on_one_line_has_every_gpu() -> None:
    uuid = "GPU-0a1b2c3d-0000-1111-2222-33334444555"
    text = " ".join(f"GPU {at}: NVIDIA H100 (UUID: {uuid}{at})" for at in range(3))
    assert [gpu.uuid for gpu in gpus_of(parse_smi(text, "host"))] == [f"{uuid}{at}" for at in range(3)]


def test_a_gpu_that_was_not_asked_for_is_unknown_and_not_lost() -> None:
    found = gpus_of(parse_smi(_WIDE.format(1, 2, 2), "host"))
    name = found[0].name
    assert isinstance(name, Missing)
    assert name.code == "not-asked"


@pytest.mark.parametrize(
    ("width", "used", "pids"),
    [(74, 20000, [1032]), (70, 20000, [1032]), (62, 20000, [1032]), (50, None, [1032]), (24, None, None)],
)
def test_a_table_that_is_cut_at_its_right_keeps_every_gpu(
    width: int, used: int | None, pids: list[int] | None
) -> None:
    text = "\n".join(line[:width] for line in _WIDE.format(0, 1, 0).split("\n"))
    found = gpus_of(parse_smi(text, "host"))
    assert len(found) == 2
    memory, held = found[0].memory, found[0].processes
    assert (None if isinstance(memory, Missing) else memory.used_mib) == used
    assert (None if isinstance(held, Missing) else [each.pid for each in held]) == pids


@pytest.mark.parametrize("width", [40, 60, 72])
def test_a_table_that_a_terminal_wrapped_is_read_whole(width: int) -> None:
    text = (Path(__file__).parent / "smi" / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
    wrapped = "\n".join(
        line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width)
    )
    assert gpus_of(parse_smi(wrapped, "host")) == gpus_of(parse_smi(text, "host"))
    pieces = "\n".join(line[: width - 9] for line in wrapped.split("\n"))
    listed = [gpu.processes for gpu in gpus_of(parse_smi(pieces, "host"))]
    found = [one for each in listed if not isinstance(each, Missing) for one in each]
    assert all(isinstance(one.used_mib, Missing) for one in found)


def test_a_gpu_that_the_driver_cannot_reach_is_a_row_of_a_csv() -> None:
    rows = _CSV + _UNREACHABLE.format(1) + "NVIDIA L40S, 12 MiB, 9 MiB, 46068 MiB\n"
    found = gpus_of(parse_smi(rows, "host"))
    assert [isinstance(gpu.name, Missing) for gpu in found] == [False, True, False]


@pytest.mark.parametrize("name", ["TITAN V", "GRID T4-16Q", "Tesla V100"])
def test_a_row_of_a_csv_that_ends_in_its_name_is_no_remark(name: str) -> None:
    with pytest.raises(BadInput, match="1 values under 4 names"):
        parse_smi(_CSV + name, "host")


_XML = Path(__file__).with_name("smi").joinpath("2xl40s-busy.q.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("end", "used", "pids"),
    [
        ("<used>39", [None, None], [None, None]),
        ("</fb_memory_usage>", [39120, None], [None, None]),
        ("</gpu>", [39120, None], [[4242], None]),
    ],
    ids=["in a value", "behind a group", "behind a GPU"],
)
def test_xml_that_is_cut_keeps_what_is_whole_and_counts_the_rest(
    end: str, used: list[int | None], pids: list[list[int] | None]
) -> None:
    found = gpus_of(parse_smi(_XML[: _XML.index(end) + len(end)], "host"))
    memory, held = [gpu.memory for gpu in found], [gpu.processes for gpu in found]
    assert [None if isinstance(each, Missing) else each.used_mib for each in memory] == used
    assert [None if isinstance(each, Missing) else [p.pid for p in each] for each in held] == pids


def test_memory_is_not_judged_by_processes_that_xml_is_cut_in() -> None:
    listed = _XML[: _XML.rindex("</process_info>") - 40]
    last = gpus_of(parse_smi(listed, "host"))[-1]
    assert "cut in the list of processes" in str(last.memory)


def test_xml_is_read_or_refused_wherever_it_is_cut() -> None:
    for end in range(0, len(_XML), 97):
        with suppress(BadInput):
            assert len(gpus_of(parse_smi(_XML[:end], "host"))) <= 2


def test_xml_that_is_cut_before_any_pid_leaves_the_memory_of_other_gpus() -> None:
    held_by_last = _XML.index("<pid>", _XML.rindex("<gpu id"))
    first, last = gpus_of(parse_smi(_XML[:held_by_last], "host"))
    assert not isinstance(first.memory, Missing)
    assert isinstance(last.processes, Missing)
    assert len(gpus_of(parse_smi(_XML[: _XML.index("<pid>")], "host"))) == 2


def test_a_cut_row_of_windows_names_no_holder() -> None:
    row = "|    0   N/A  N/A      2140    C+G   C:\\Windows\\System32\\dw"
    found = gpus_of(parse_smi(_HEAD.replace("    On  |", "  WDDM  |") + row, "h"))
    assert not isinstance(found[0].processes, Missing)
    assert [(each.pid, each.kind) for each in found[0].processes] == [(2140, "graphics")]


def test_a_container_hides_no_process_of_its_host() -> None:
    row = "|    0   N/A  N/A      4242      C   python                       19000MiB |\n"
    none = "|  No running processes found                                                 |\n"
    inside = "$ docker exec train nvidia-smi\n" + _HEAD + none + _EDGE
    first = gpus_of(parse_smi("$ nvidia-smi\n" + _HEAD + row + _EDGE + inside, "host"))[0]
    assert not isinstance(first.processes, Missing)
    assert [each.pid for each in first.processes] == [4242]
    ended = _HEAD.replace("20000MiB", "    5MiB") + none + _EDGE
    assert ended not in inside
    assert gpus_of(parse_smi(_HEAD + row + _EDGE + ended, "host"))[0].processes == ()


def test_a_pending_change_of_mig_is_said() -> None:
    star = "|                                 |                      |     Disabled* |\n"
    table = _HEAD.replace("Default |\n", "Default |\n" + star)
    for text, words in (
        (table + _EDGE, "pending to be on"),
        (table.replace("Disabled*", "Enabled* ") + _EDGE, "True"),
        (table.replace("Disabled*", "Disabled ") + _EDGE, "False"),
    ):
        assert words in str(gpus_of(parse_smi(text, "h"))[0].mig_enabled)


@pytest.mark.parametrize(("end", "total"), [("46068", 46068), ("4606", None), ("4", None)])
def test_a_total_without_unit_that_is_the_start_of_anothers_is_cut(end: str, total: int | None) -> None:
    names = "index, name, memory.used, memory.total\n"
    first, last = gpus_of(parse_smi(f"{names}0, NVIDIA A40, 5, 46068\n1, NVIDIA A40, 3, {end}", "h"))
    assert not isinstance(first.memory, Missing)
    assert (None if isinstance(last.memory, Missing) else last.memory.total_mib) == total
    if total is None:
        assert "cut" in str(last.memory)


@pytest.mark.parametrize("cut", ["n", "No", "Non"])
def test_a_recovery_action_of_none_whose_end_is_cut_blames_no_gpu(cut: str) -> None:
    text = "\n".join(
        (
            "==============NVSMI LOG==============",
            "Driver Version                            : 570.86.15",
            "Attached GPUs                             : 1",
            "GPU 00000000:07:00.0",
            "    Product Name                          : NVIDIA H100 80GB HBM3",
            f"    GPU Recovery Action                   : {cut}",
            "    Minor Number                          : 0",
        )
    )
    (gpu,) = gpus_of(parse_smi(text + "\n", "host"))
    assert isinstance(gpu.recovery_action, Missing)
    (whole,) = gpus_of(parse_smi(text.replace(f": {cut}\n", ": None\n") + "\n", "host"))
    assert whole.recovery_action == "none"
