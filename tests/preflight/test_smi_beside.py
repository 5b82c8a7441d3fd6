"""Logs of other groups, and lists of processes, beside each other; rows that are no count of GPUs."""

from pathlib import Path

import pytest

from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_TABLE = (Path(__file__).with_name("smi") / "2xl40s-busy.table.txt").read_text(encoding="utf-8")


def gpus(text: str) -> tuple[Gpu, ...]:
    return gpus_of(parse_smi(text, "host"))


_LOG_OF_A_GROUP = "".join(
    f"==============NVSMI LOG==============\nTimestamp : Tue Mar  4 10:11:1{at} 2025\nAttached GPUs : 2\n"
    + "".join(
        f"GPU 00000000:{bus}:00.0\n    {group}\n        {name} : {value}\n"
        for bus, value in zip(("1B", "2B"), values, strict=True)
    )
    for at, (group, name, values) in enumerate(
        (
            ("FB Memory Usage", "Used", ("1 MiB", "70000 MiB")),
            ("Temperature", "GPU Current Temp", ("40 C", "41 C")),
        )
    )
)


def test_logs_of_other_groups_of_values_complete_each_other() -> None:
    """`nvidia-smi -q -d MEMORY; nvidia-smi -q -d TEMPERATURE`, without prompts between them."""
    found = gpus(_LOG_OF_A_GROUP)
    assert [gpu.temperature_c for gpu in found] == [40, 41]
    assert [gpu.memory.used_mib for gpu in found if not isinstance(gpu.memory, Missing)] == [1, 70000]
    looped = _LOG_OF_A_GROUP + _LOG_OF_A_GROUP.replace("10:11:1", "10:11:2").replace("41 C", "77 C")
    assert [gpu.temperature_c for gpu in gpus(looped)] == [40, 77]


def test_processes_that_pmon_lists_below_a_log_are_on_its_gpus() -> None:
    found = gpus(f"{_LOG_OF_A_GROUP}{_PMON}    1   555     C    98   python\n")
    listed = [gpu.processes for gpu in found if not isinstance(gpu.processes, Missing)]
    assert [[process.pid for process in each] for each in listed] == [[], [555]]
    assert [gpu.temperature_c for gpu in found] == [40, 41]


_PMON = "# gpu   pid  type    sm   command\n# Idx     #   C/G     %   name\n    0     -     -     -   -\n"


def test_a_log_of_another_hour_says_nothing_of_the_moment_of_the_last() -> None:
    """Memory of one time and processes of another make no GPU that nobody holds."""
    earlier = _LOG_OF_A_GROUP.replace("10:11:10", "09:11:10")
    assert [gpu.temperature_c for gpu in gpus(earlier)] == [40, 41]
    assert all(isinstance(gpu.memory, Missing) for gpu in gpus(earlier))


def test_pmon_tells_nothing_of_gpus_whose_numbers_a_log_does_not_hold() -> None:
    """`nvidia-smi -q -i 1` without the command: which of the two it is about is not known."""
    log, _, _ = _LOG_OF_A_GROUP.partition("GPU 00000000:2B")
    found = gpus(f"{log}{_PMON}    1   555     C    98   python\n")
    assert all(isinstance(gpu.processes, Missing) for gpu in found)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_table_whose_copy_lacks_its_left_edge_is_read(lost: int) -> None:
    cut = "\n".join(line[lost:] for line in _TABLE.split("\n"))
    assert gpus(cut) == gpus(_TABLE)


@pytest.mark.parametrize(
    ("used", "least"),
    [((3, 900, 3, 910), 2), ((3, 900, 7) * 2 + (3, 900), 3), ((3, 900, 3), 0), ((3,) * 8, 0)],
)
def test_rows_that_may_list_gpus_twice_are_no_count_of_them(used: tuple[int, ...], least: int) -> None:
    rows = "".join(f"NVIDIA A40, {mib} MiB, 4096 MiB\n" for mib in used)
    said = str(gpus(f"name, memory.used [MiB], memory.total [MiB]\n{rows}")[0].processes)
    assert (f"the host has at least {least} GPUs" in said) == (least > 0)
    numbered = "".join(f"{at}, {row}\n" for at, row in enumerate(rows.splitlines()))
    said = str(gpus(f"index, name, memory.used [MiB], memory.total [MiB]\n{numbered}")[0].processes)
    assert "at least" not in said


def test_rows_without_names_of_columns_may_list_gpus_again() -> None:
    rows = "NVIDIA A40, 3 MiB\nNVIDIA A40, 900 MiB\n"
    assert "the host may have fewer" in str(gpus(rows * 2)[0].processes)
    assert "fewer" not in str(gpus(f"0, {rows.replace(chr(10), chr(10) + '1, ', 1)}")[0].processes)


_HELD = (Path(__file__).with_name("smi") / "2xl40s-held-by-nobody.table.txt").read_text(encoding="utf-8")


def test_those_that_fuser_names_hold_memory_that_no_listed_process_explains() -> None:
    """A forked child holds a GPU that nvidia-smi lists no process on; monitors map nothing."""
    fuser = "$ sudo fuser -v /dev/nvidia*\n                     USER        PID ACCESS COMMAND\n" + "".join(
        f"/dev/nvidia{at}:        ann        {at + 1}77 F...m python\n"
        f"                     ann        {at + 1}78 F.... nvtop\n"
        for at in range(2)
    )
    found = [gpu.processes for gpu in gpus(f"{_HELD}\n{fuser}/dev/nvidiactl: ann 99 F...m python\n")]
    listed = [each for each in found if not isinstance(each, Missing)]
    assert [[process.pid for process in each] for each in listed] == [[177], []]


@pytest.mark.parametrize(
    "text",
    [
        f"{_HELD}\n/dev/nvidia0:  root 41 F...m nvidia-cuda-mps\n               root 42 F...m Xorg\n",
        f"{_HELD}\n/dev/nvidia0: ann 43 F.... nvtop\n/mnt/data: ann 44 F...m cat\n        bob 46 F...m vi\n",
        f"/dev/nvidia0:  ann  45 F...m python\n$ kill -9 45\n{_HELD}",
    ],
)
def test_servers_users_of_other_files_and_those_of_an_earlier_list_hold_no_gpu(text: str) -> None:
    """The memory stays one that no process explains."""
    assert [gpu.processes for gpu in gpus(text)] == [(), ()]


def test_gpus_of_a_topology_that_a_cut_table_lacks_are_unknown() -> None:
    names = [f"GPU{at}" for at in range(4)]
    rows = ["\t".join((name, *(" X " if one == name else "NV18" for one in names), "0-55")) for name in names]
    matrix = "\t".join(("", *names, "CPU Affinity")) + "\n" + "\n".join(rows) + "\n"
    cut = _TABLE[: _TABLE.index("| Processes:")].rstrip("+-\n ") + "\n"
    found = gpus(f"{cut}\n{matrix}")
    assert [isinstance(gpu.name, str) for gpu in found] == [True, True, False, False]
    assert "topo -m in the file has 4 GPUs" in str(found[3].name)
    assert len(gpus(f"{_TABLE}\n{matrix}")) == 2
