"""A damaged output never states a false fact: what is read of it the whole one says, or it is missing."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_SMI = Path(__file__).with_name("smi")
_NAMES = (
    "2xl40s-busy.table.txt",
    "2xl40s-busy.q.txt",
    "2xl40s-busy.q.xml",
    "2xl40s-busy.query.csv",
    "2xl40s-busy.list.txt",
    "rtx-2080+gtx-750-ti.table.txt",
    "8xa100-mig.table.txt",
    "p100.q.txt",
)


def read(text: str) -> tuple[Gpu, ...]:
    try:
        facts = parse_smi(text, "host")
    except BadInput:
        return ()
    return () if isinstance(facts.gpus, Missing) else gpus_of(facts)


def stated(gpu: Gpu) -> dict[str, object]:
    """Return the facts of a GPU that decide about a launch, without what is missing."""
    names = ("uuid", "pci_bus_id", "capability", "compute_mode", "mig_enabled", "temperature_c")
    facts: dict[str, object] = {name: getattr(gpu, name) for name in names}
    if not isinstance(gpu.memory, Missing):
        facts["memory"] = (gpu.memory.used_mib, gpu.memory.total_mib)
    if not isinstance(gpu.name, Missing):
        facts["name"] = gpu.name
    if not isinstance(gpu.processes, Missing):
        facts.update({f"pid {each.pid}": each.kind for each in gpu.processes})
    return {name: value for name, value in facts.items() if not isinstance(value, Missing)}


def damages(text: str) -> Iterator[str]:
    lines = text.split("\n")
    for end in range(0, len(text), max(1, len(text) // 40)):
        yield text[:end]
    for count in range(0, len(lines), max(1, len(lines) // 20)):
        yield "\n".join(lines[:count])
    for width in range(60, 133, 8):
        yield "\n".join(line[:width] for line in lines)
        yield "\n".join(line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width))


@pytest.mark.parametrize("name", _NAMES)
def test_no_damage_makes_a_fact_false(name: str) -> None:
    text = (_SMI / name).read_text(encoding="utf-8")
    own = [stated(gpu) for gpu in read(text)]
    for damaged in damages(text):
        for gpu in read(damaged):
            facts = stated(gpu)
            assert gpu.index < len(own)
            for key, value in facts.items():
                whole = own[gpu.index].get(key)
                assert value == whole or (isinstance(whole, str) and whole.startswith(str(value).strip(".")))


@pytest.mark.parametrize("name", _NAMES[:4])
def test_a_wrapped_output_is_read_whole(name: str) -> None:
    text = (_SMI / name).read_text(encoding="utf-8").replace("\t", "        ")
    own = [stated(gpu) for gpu in read(text)]
    for width in (60, 71, 80, 100, 120):
        wrapped = "\n".join(
            line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width)
        )
        assert [stated(gpu) for gpu in read(wrapped)] == own, width
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    wrapped = "\n".join(line[at : at + 66] for line in quoted.split("\n") for at in range(0, len(line), 66))
    assert [stated(gpu) for gpu in read(wrapped)] == own


_TABLE = (_SMI / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
_Q = (_SMI / "2xl40s-busy.q.txt").read_text(encoding="utf-8")


def test_a_gpu_whose_first_row_is_lost_is_counted() -> None:
    lines = _TABLE.split("\n")
    row = next(at for at, line in enumerate(lines) if line.startswith("|   1  "))
    first, second = read("\n".join(lines[:row] + lines[row + 1 :]))
    assert (stated(first)["memory"], stated(second)["memory"]) == ((39120, 46068), (1100, 46068))
    assert isinstance(second.name, Missing)


@pytest.mark.parametrize("pid", ["42?42", "", "4 2 4"])
def test_a_process_whose_row_cannot_be_read_is_not_taken_for_none(pid: str) -> None:
    first, _ = read(_TABLE.replace("   4242 ", f"   {pid} "))
    assert isinstance(first.processes, Missing)


def test_a_list_of_processes_that_is_cut_before_the_first_is_not_empty() -> None:
    for end in (
        "    Processes\n",
        "Process ID                        :",
        "Process ID                        : ",
    ):
        first, *_ = read(_Q[: _Q.index(end) + len(end)])
        assert isinstance(first.processes, Missing)


def test_memory_of_mig_instances_is_not_that_of_a_gpu() -> None:
    text = (_SMI / "8xa100-mig.table.txt").read_text(encoding="utf-8")
    own = [stated(gpu).get("memory") for gpu in read(text)]
    for width in range(40, 60, 3):
        found = read("\n".join(line[:width] for line in text.split("\n")))
        assert all(stated(gpu).get("memory") in (None, own[gpu.index]) for gpu in found)


def test_more_memory_in_use_than_there_is_is_no_fact() -> None:
    (gpu,) = read("index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA L4, 100, 23\n")
    assert isinstance(gpu.memory, Missing)


def test_the_mps_server_is_known_where_its_name_is_cut() -> None:
    row = "|    0   N/A  N/A           700      C   nvidia-cuda-mps-s\n"
    found = read(_TABLE.replace("|    0   N/A  N/A ", row + "|    0   N/A  N/A ", 1))[0].processes
    assert not isinstance(found, Missing)
    assert found[0].kind == "mps"


def test_a_header_that_the_end_of_the_file_cuts_is_no_gpu() -> None:
    command = "$ nvidia-smi --query-gpu=name,memory.used,memory.total --format=csv\n"
    assert read(command + "name, memory.used [MiB], memory.to") == ()


def test_a_pid_at_the_width_at_which_all_lines_are_cut_is_no_pid() -> None:
    text = "\n".join(line[:46] for line in _Q.split("\n") if "GPU UUID" not in line)
    assert not any(f"pid {pid}" in stated(gpu) for gpu in read(text) for pid in (4, 42, 424, 4243))


def test_pieces_of_wrapped_values_are_no_titles_of_hosts() -> None:
    numbers = iter(range(9))
    named = re.sub("GPU-\\S+", lambda _: f"GPU-0a1b2c3d-0000-1111-2222-33334444555{next(numbers)}", _Q)
    flat = "\n".join(line.strip() for line in named.split("\n"))
    for width in range(50, 90):
        wrapped = "\n".join(
            line[at : at + width] for line in flat.split("\n") for at in range(0, max(1, len(line)), width)
        )
        assert len(read(wrapped)) == 2


def _loop(gpus: int) -> str:
    return "".join(
        f"2026/01/13 09:12:{10 + 5 * round_:02d}.{100 + at}, NVIDIA A40, {10 * round_ + at} MiB, 46068 MiB\n"
        for round_ in range(3)
        for at in range(gpus)
    )


_LOOP = _loop(2)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (f"timestamp, name, memory.used [MiB], memory.total [MiB]\n{_LOOP}", [20, 21]),
        (f"timestamp, name, memory.used [MiB], memory.total [MiB]\n{_LOOP[:-40]}", [20, None]),
        (_LOOP, [None, None]),
        (_loop(16), [None] * 16),
        ("name, memory.used [MiB], memory.total [MiB]\n" + "NVIDIA A40, 7 MiB, 4096 MiB\n" * 16, [7] * 16),
    ],
)
def test_a_loop_whose_rows_have_a_time_and_no_index_is_of_its_last_listing(
    text: str, used: list[int | None]
) -> None:
    gpus = read(text)
    assert [None if isinstance(gpu.memory, Missing) else gpu.memory.used_mib for gpu in gpus] == used


@pytest.mark.parametrize(
    "text",
    [
        (
            "$ nvidia-smi --query-gpu=memory.used,memory.total --format=csv -l 5\n"
            "memory.used [MiB], memory.total [MiB]\n0 MiB, 4096 MiB\n0 MiB, 4096 MiB\n"
        ),
        "name, memory.used [MiB], memory.total [MiB]\n" + "NVIDIA A40, 0 MiB, 4096 MiB\n" * 17,
        "NVIDIA A40, 0 MiB, 4096 MiB\n" * 17,
        "name, memory.used [MiB], memory.total [MiB]\n"
        + "".join(f"NVIDIA A40, {at % 2 * 900 + at} MiB, 4096 MiB\n" for at in range(7)),
        "memory.used [MiB]\n" + "3 MiB\n9000 MiB\n80 MiB\n" * 4,
        _loop(17),
    ],
)
def test_a_loop_whose_rows_have_no_index_is_no_list_of_gpus(text: str) -> None:
    with pytest.raises(BadInput, match="again and again"):
        parse_smi(text, "host")


@pytest.mark.parametrize("used", [(3, 900) * 2, (3,) * 8, (900,) * 4 + (3,) * 4, (3, 900, 3, 900, 900, 3)])
def test_gpus_of_unlike_use_without_an_index_are_those_of_one_moment(used: tuple[int, ...]) -> None:
    rows = "".join(f"NVIDIA A40, {mib} MiB, 4096 MiB\n" for mib in used)
    assert len(read(f"name, memory.used [MiB], memory.total [MiB]\n{rows}")) == len(used)


def test_a_long_loop_of_gpus_alike_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(BadInput, match="again and again"):
        parse_smi("name, memory.used [MiB]\n" + "NVIDIA A40, 0 MiB\n" * 6000, "host")
    assert time.process_time() - start < 5


def _sampled(*milliseconds: int) -> str:
    """Return rows at these times of a loop, of which no column names the GPU."""
    rows = (
        f"2026/01/13 09:12:{10 + ms // 1000}.{ms % 1000:03d}, {ms} MiB, 8192 MiB\n" for ms in milliseconds
    )
    return "timestamp, memory.used [MiB], memory.total [MiB]\n" + "".join(rows)


@pytest.mark.parametrize(
    ("times", "used"),
    [
        ((100, 104, 109, 113, 218, 222, 227, 231), [218, 222, 227, 231]),  # -lms 100, twice
        ((101, 200, 201, 300, 301, 400), [300, 301]),  # cut at both ends
        ((100, 103, 1110, 1112, 2122), [1110, 1112]),  # -l 1
        ((100, 1110, 2122), [2122]),
        ((100, 104, 500, 504, 900, 904, 4900, 4904), [4900, 4904]),  # that stopped for a while
        ((100, 103, 105, 118), [100, 103, 105, 118]),  # once, one GPU slow to answer
        ((100, 100, 100), [100, 100, 100]),
    ],
)
def test_pauses_of_a_fast_loop_separate_its_listings(times: tuple[int, ...], used: list[int]) -> None:
    memories = [gpu.memory for gpu in read(_sampled(*times))]
    assert [memory.used_mib for memory in memories if not isinstance(memory, Missing)] == used


@pytest.mark.parametrize(
    "times",
    [
        (100, 201, 302),  # of one GPU, or of three that answer slowly
        (100, 112),
        (100, 104, 109, 113, 218, 222),  # cut, or six GPUs
        (100, 101, 102, 130, 131, 132),
        (100, 200, 300, 900, 1000),  # of one GPU, which a stop does not make three
        (100, 498, 900, 1299, 1701),
    ],
)
def test_a_loop_whose_pauses_are_not_clear_is_no_list_of_gpus(times: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="again and again"):
        parse_smi(_sampled(*times), "host")


@pytest.mark.parametrize("kept", range(1, 16))
def test_a_row_that_is_cut_within_its_time_is_no_further_gpu(kept: int) -> None:
    whole = _sampled(100, 103, 1110, 1112, 2122, 2124)
    rows = whole.splitlines(keepends=True)
    assert len(read("".join(rows[:5]) + rows[5][:kept])) == 2


@pytest.mark.parametrize(
    ("names", "row", "sizes"),
    [
        ("memory.used [MiB], memory.free [MiB]", "39000 MiB, 1536 MiB", (40536, 39000)),
        ("memory.reserved [MiB], memory.used [MiB], memory.free [MiB]", "424, 39000, 1536", (40960, 39000)),
        ("memory.total [MiB], memory.free [MiB]", "40960, 1536", (40960, 39424)),
        ("memory.used [MiB]", "39000 MiB", (None, 39000)),
        ("memory.used [MiB], memory.free [MiB]", "[N/A], 1536 MiB", None),
        ("memory.total [MiB], memory.free [MiB]", "1536, 40960", None),
    ],
)
def test_a_size_of_memory_that_is_not_held_follows_from_the_others(
    names: str, row: str, sizes: tuple[int | None, int] | None
) -> None:
    (gpu,) = read(f"index, {names}\n0, {row}\n")
    memory = gpu.memory
    assert (None if isinstance(memory, Missing) else (gpu.total_mib, memory.used_mib)) == sizes


def test_a_listing_goes_on_past_midnight() -> None:
    days = ("13 23:59:59.998", "13 23:59:59.999", "14 00:00:00.001", "14 00:00:00.002")
    rows = (f"2026/01/{day}, {at} MiB, 4096 MiB\n" for at, day in enumerate(days))
    assert len(read("timestamp, memory.used [MiB], memory.total [MiB]\n" + "".join(rows))) == 4


def test_gpus_of_old_drivers_have_four_digits_in_front_of_the_bus() -> None:
    text = "=====NVSMI LOG=====\n\nDriver Version : 375.39\n\nAttached GPUs : 2\n"
    rows = (f"GPU 0000:0{at}:00.0\n    Product Name                    : TITAN X (Pascal)\n" for at in (1, 2))
    assert [gpu.pci_bus_id for gpu in read(text + "".join(rows))] == ["0000:01:00.0", "0000:02:00.0"]


@pytest.mark.parametrize(("count", "held"), [(64, 64), (65, 1)])
def test_a_cut_list_holds_as_many_gpus_as_it_counts_if_a_host_can_have_them(count: int, held: int) -> None:
    head = f"=====NVSMI LOG=====\n\nAttached GPUs : {count}\n"
    text = f"{head}GPU 00000000:01:00.0\n    Product Name : NVIDIA A40\n"
    assert len(read(text)) == held


def test_a_version_at_which_a_terminal_cuts_a_table_is_no_version() -> None:
    text = (_SMI / "2xl40s-busy.table.txt").read_text("utf-8")
    whole = parse_smi(text, "host").driver
    for width in range(40, 80):
        try:
            driver = parse_smi("\n".join(line[:width] for line in text.split("\n")), "host").driver
        except BadInput:
            continue
        if not isinstance(driver, Missing) and not isinstance(whole, Missing):
            assert driver.version == whole.version
            assert isinstance(driver.cuda_version, Missing) or driver.cuda_version == whole.cuda_version


@pytest.mark.parametrize(
    "split",
    [
        lambda line: f"{line.ljust(91)}\u2502 step 10 loss 3.2",
        lambda line: f"{line[:70].ljust(70)}\u2502user@host:~$ tail -f log",
        lambda line: f"step 10 loss 3.2 \u2502{line}",
    ],
)
def test_a_pane_beside_the_table_is_left_out(split: Callable[[str], str]) -> None:
    text = (_SMI / "2xl40s-busy.table.txt").read_text("utf-8")
    whole = [stated(gpu) for gpu in read(text)]
    seen = [stated(gpu) for gpu in read("\n".join(map(split, text.split("\n"))))]
    assert [gpu["name"] for gpu in seen] == [gpu["name"] for gpu in whole]
    assert all(one.items() <= other.items() for one, other in zip(seen, whole, strict=True))


def test_digits_of_other_scripts_are_digits() -> None:
    text = (_SMI / "2xl40s-busy.table.txt").read_text("utf-8")
    for first in (0xFF10, 0x0660, 0x06F0):
        other = text.translate({ord(str(digit)): chr(first + digit) for digit in range(10)})
        assert list(map(stated, read(other))) == list(map(stated, read(text)))


def test_a_name_at_which_a_table_is_cut_ends_in_dots() -> None:
    text = (_SMI / "2xl40s-busy.table.txt").read_text("utf-8")
    for end in range(text.index("NVIDIA L40S") + 3, text.index("NVIDIA L40S") + len("NVIDIA L40S")):
        (gpu,) = read(text[:end])
        assert gpu.name == f"{text[:end].rpartition('  ')[2].rstrip()}..."


@pytest.mark.parametrize(
    ("end", "name"), [("    Product Name : NVIDIA L4", None), ("    Product Name : NVIDIA L4\n", "NVIDIA L4")]
)
def test_the_last_value_of_a_q_that_has_no_line_end_may_be_cut(end: str, name: str | None) -> None:
    (gpu,) = read(f"=====NVSMI LOG=====\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n{end}")
    assert (None if isinstance(gpu.name, Missing) else gpu.name) == name


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1, NVIDIA A40, 5 MiB", "under uuid"),
        ("GPU-0a1b2c3d-0000-1111-2222-333344445550, GPU-1, 5 MiB", "under name"),
    ],
)
def test_a_row_whose_values_are_under_other_names_is_no_gpu(row: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_smi(f"name, uuid, memory.used [MiB]\n{row}\n", "host")


def test_a_cut_row_of_a_library_keeps_the_column_of_row_numbers_out() -> None:
    rows = ",index,name,memory.used [MiB]\n0,0,NVIDIA A40,5 MiB\n1,1,NVIDIA A4"
    assert [gpu.index for gpu in read(rows)] == [0, 1]
    assert next(gpu.name for gpu in read(rows)) == "NVIDIA A40"


def test_a_list_whose_instances_of_mig_have_no_profile_is_one_of_mig() -> None:
    uuid = "b8ea3855-276c-c9cb-b366-c6fa655957c5"
    text = f"GPU 0: A100 (UUID: GPU-{uuid})\n  MIG Device 0: (UUID: MIG-GPU-{uuid}/1/0)\n"
    assert [gpu.mig_enabled for gpu in read(text)] == [True]


def test_the_slowdown_of_a_gpu_that_tells_margins_alone_is_known() -> None:
    """An H100 at 29 C prints margins of 58 C to its limit and -2 C for the slowdown, which is at 89 C."""
    text = (Path(__file__).parent / "smi" / "2xl40s-busy.q.txt").read_text(encoding="utf-8")
    for label, value in (("GPU T.Limit Temp        ", "58 C"), ("GPU Slowdown T.Limit Temp", "-2 C")):
        text = re.sub(rf"({label} *: )N/A", rf"\g<1>{value}", text)
    first = read(re.sub(r"(GPU Current Temp *: )3\d C", r"\g<1>29 C", text))[0]
    assert first.temperature_slowdown_c == 89
