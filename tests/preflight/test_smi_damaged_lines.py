"""Lines that lost or gained characters, and two lines that became one: no exact fact comes out of them."""

import re
from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_FOLDER = Path(__file__).parent / "smi"


def _first(name: str, old: str, new: str) -> Gpu:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    assert old in text
    return gpus_of(parse_smi(text.replace(old, new, 1), "h"))[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "field"),
    [
        ("p100.q.txt", "    HW Slowdown                       : Not Active\n", "", "throttle"),
        ("p100.q.txt", "SW Power Cap                      : Not A", "SW Power Cap : No\ufffd", "throttle"),
        ("p100.q.txt", "Persistence Mode                      : D", "Persistence Mode  :  D", "persistence"),
        ("p100.q.txt", "        Idle ", "        Id\ufffde ", "throttle"),
        ("p100.q.txt", "GPU Current Temp ", "GPU         Temp ", "temperature_c"),
        ("p100.q.txt", "GPU UUID                              : G", "GPU UUID : Enabled\n    X : G", "uuid"),
        ("2xl40s-busy.table.txt", "39120MiB", "39 120MiB", "memory"),
        ("2xl40s-busy.table.txt", "|    0   N/A  N/A ", "/A ", "processes"),
        ("2xl40s-busy.table.txt", "39100MiB |\n|    1", "39100MiB ||    1", "processes"),
        ("8xa100-mig.nvlink.txt", "\t Link 4: 25 GB/s\n", "", "nvlinks"),
        ("8xa100-mig.nvlink.txt", "\t Link 11: 25 GB/s\n", "", "nvlinks"),
        ("2xl40s-busy.table.txt", "W / ", "? W / ", "power_w"),
        ("2xl40s-busy.table.txt", "39120MiB", "39MiB", "memory"),
        ("2xl40s-busy.table.txt", "NVIDIA L40S", "       L40S", "name"),
        ("2xl40s-busy.list.txt", "{uuids[0]}", "{uuids[1]}", "uuid"),
        ("8xa100-mig.table.txt", "SXM4-80GB", "SXM4-80  ", "name"),
        ("2xl40s-busy.q.xml", "<total>46068", "<total>4 068", "memory"),
    ],
)  # fmt: skip
def test_a_value_of_a_line_that_is_damaged_is_unknown(name: str, old: str, new: str, field: str) -> None:
    uuids = re.findall(r"GPU-[0-9a-f-]{36}", (_FOLDER / name).read_text(encoding="utf-8"))
    old, new = (text.format(uuids=uuids) if "uuids" in text else text for text in (old, new))
    assert not isinstance(getattr(_first(name, "\n", "\n"), field), Missing)
    assert isinstance(getattr(_first(name, old, new), field), Missing)


@pytest.mark.parametrize("name", ["2xl40s-busy.table.txt", "2xl40s-busy.q.txt", "2xl40s-busy.list.txt"])
def test_a_line_that_is_doubled_is_no_gpu_and_no_process_of_its_own(name: str) -> None:
    lines = (_FOLDER / name).read_text(encoding="utf-8").split("\n")
    whole = gpus_of(parse_smi("\n".join(lines), "h"))
    for at, line in enumerate(lines):
        if "q.txt" in name and not line.startswith("GPU "):
            continue
        gpus = gpus_of(parse_smi("\n".join([*lines[: at + 1], *lines[at:]]), "h"))
        assert [(gpu.pci_bus_id, gpu.memory) for gpu in gpus] == [
            (gpu.pci_bus_id, gpu.memory) for gpu in whole
        ]
        if name.endswith("table.txt"):
            assert [gpu.processes for gpu in gpus] == [gpu.processes for gpu in whole]


def test_a_gpu_that_lost_its_first_line_counts_though_the_one_above_reads_alike() -> None:
    text = (_FOLDER / "2xl40s-busy.table.txt").read_text(encoding="utf-8").replace(" 1100MiB", "39120MiB")
    lines = [line for line in text.split("\n") if not line.startswith("|   1  NVIDIA")]
    assert [gpu.memory for gpu in gpus_of(parse_smi("\n".join(lines), "h"))] == [
        gpu.memory for gpu in gpus_of(parse_smi(text, "h"))
    ]


def test_a_gpu_that_lost_its_number_keeps_the_processes_that_the_list_names() -> None:
    text = (_FOLDER / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
    gpus = gpus_of(parse_smi(text.replace("|   1  NVIDIA", "|      NVIDIA"), "h"))
    assert [gpu.processes for gpu in gpus] == [gpu.processes for gpu in gpus_of(parse_smi(text, "h"))]


def test_rows_in_another_order_are_the_gpus_of_their_numbers() -> None:
    first, second = _rows("2xl40s-busy.table.txt")
    text = (_FOLDER / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
    swapped = text.replace(first, "*").replace(second, first).replace("*", second)
    doubled = text.replace(first, f"{first}\n{first}")
    assert gpus_of(parse_smi(swapped, "h")) == gpus_of(parse_smi(text, "h"))
    assert gpus_of(parse_smi(doubled, "h")) == gpus_of(parse_smi(text, "h"))
    names = [f"GPU {at}: NVIDIA A10G (UUID: GPU-3f8a1b6e-0000-4c1d-9e2a-00000000000{at})" for at in (2, 1, 0)]
    listed = gpus_of(parse_smi("\n".join(names) + "\n", "h"))
    assert [str(gpu.uuid)[-1] for gpu in listed if gpu.name == "NVIDIA A10G"] == ["0", "1", "2"]


def _rows(name: str) -> list[str]:
    lines = (_FOLDER / name).read_text(encoding="utf-8").split("\n")
    starts = [at for at, line in enumerate(lines) if line.startswith("|   ") and "NVIDIA L40S" in line]
    return ["\n".join(lines[at : at + 3]) for at in starts]


def test_error_counters_of_nvlinks_are_those_of_one_gpu() -> None:
    counters = "".join(
        f"\t Link {link}: {word} Errors: {3 if link == 1 and word == 'CRC' else 0}\n"
        for link in range(4)
        for word in ("Replay", "Recovery", "CRC")
    )
    text = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-3f8a1b6e-0000-4c1d-9e2a-000000000000)\n{counters}"
    (gpu,) = gpus_of(parse_smi(text, "h"))
    assert not isinstance(gpu.nvlinks, Missing)
    assert [(link.active, link.errors) for link in gpu.nvlinks] == [
        (True, 0),
        (True, 3),
        (True, 0),
        (True, 0),
    ]


def test_errors_of_which_a_line_is_lost_are_not_counted_as_none() -> None:
    gpu = _first("h100-remap-pending.q.txt", "            SRAM Uncorrectable ", "            X ")
    assert not isinstance(gpu.ecc, Missing)
    assert isinstance(gpu.ecc.uncorrected_volatile, Missing)
    without_mode = _first("h100-remap-pending.q.txt", "    ECC Mode\n        Current ", "    X\n        X ")
    assert without_mode.ecc == _first("h100-remap-pending.q.txt", "\n", "\n").ecc


def test_counts_of_errors_below_two_lines_that_are_one_are_of_an_unknown_group() -> None:
    text = (_FOLDER / "h100-remap-pending.q.txt").read_text(encoding="utf-8")
    start = text.index("Uncorrectable", text.index("Volatile"))
    end = text.index(" : ", text.index("Aggregate"))
    (gpu,) = gpus_of(parse_smi(text[: text.index("\n", start)] + text[end:], "h"))
    assert not isinstance(gpu.ecc, Missing)
    assert isinstance(gpu.ecc.uncorrected_aggregate, Missing)


def test_an_element_of_xml_that_is_there_twice_is_unknown() -> None:
    text = (_FOLDER / "p100.q.xml").read_text(encoding="utf-8")
    (gpu,) = gpus_of(parse_smi(text.replace("</gpu>", "<processes></processes></gpu>"), "h"))
    assert isinstance(gpu.processes, Missing)


def test_a_row_of_a_process_that_is_cut_leaves_its_gpu_in_no_list_of_idle_ones() -> None:
    head = "# gpu  pid  type  sm  command\n# Idx    #   C/G   %  name\n"
    gpus = gpus_of(
        parse_smi(f"{head}    0  812     C  97  python\n    1  90\n    1    -     -   -  -\n", "h")
    )
    assert [isinstance(gpu.processes, Missing) for gpu in gpus] == [False, True]


_LINKS = "".join(f"\t Link {at}: {state}\n" for at, state in enumerate(["25 GB/s", "<inactive>"]))
_HEADS = [f"GPU {at}: NVIDIA A40 (UUID: GPU-0a1b2c3d-0000-1111-2222-33334444555{at})\n" for at in (0, 1)]


@pytest.mark.parametrize(
    ("text", "active"),
    [
        (_HEADS[0] + _LINKS + _HEADS[1] + _LINKS, [[True, False], [True, False]]),
        (_HEADS[0] + _LINKS + "\ufffd\n" + _LINKS, [[True, False], [True, False]]),
        (_HEADS[0] + _LINKS.replace("<inactive>", "<inact?ve>") + _HEADS[1] + _LINKS, [None, [True, False]]),
        (_HEADS[0] + _LINKS.replace("\n", "\n\t Link 0: 25 GB/s\n", 1), [[True, False]]),
        (_HEADS[0] + _LINKS.replace("Link 0", "Link 4"), [None]),
    ],
    ids=["whole", "a lost first line", "a damaged state", "a doubled line", "out of order"],
)
def test_links_are_those_of_their_gpu_or_unknown(text: str, active: list[list[bool] | None]) -> None:
    links = [gpu.nvlinks for gpu in gpus_of(parse_smi(text, "h"))]
    assert [None if isinstance(each, Missing) else [one.active for one in each] for each in links] == active


@pytest.mark.parametrize("version", ["535.1?1.08", "535.104.05\ufffd"])
def test_a_version_with_another_character_in_it_is_unknown(version: str) -> None:
    text = (_FOLDER / "p100.q.txt").read_text(encoding="utf-8")
    printed = text[text.index(": ", text.index("Driver Version")) + 2 :].split("\n")[0]
    facts = parse_smi(text.replace(printed, version, 1), "h")
    assert isinstance(facts.driver, Missing) or isinstance(facts.driver.version, Missing)


def test_columns_in_percent_are_columns_and_not_supported_is_no_empty_list() -> None:
    names = "utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB]"
    (gpu,) = gpus_of(parse_smi(f"{names}\n0 %, 0 %, 10989 MiB, 2102 MiB\n", "h"))
    assert not isinstance(gpu.memory, Missing)
    assert gpu.memory.used_mib == 2102
    layouts = (_FOLDER.parent / "smi_layouts.txt").read_text(encoding="utf-8")
    table = layouts.partition("### driver325\t")[2].partition("\n")[2].partition("### ")[0]
    for old in gpus_of(parse_smi(table, "h")):
        assert isinstance(old.processes, Missing)
        assert old.processes.code == "not-asked"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("C   /home", "C        ", ".../ada/venvs/train/bin/python"),
        ("venvs/train", "venvs  rain", "/home/ada/venvs..."),
    ],
)
def test_the_name_of_a_process_says_where_blanks_took_a_part_of_it(old: str, new: str, name: str) -> None:
    processes = _first("2xl40s-busy.table.txt", old, new).processes
    assert not isinstance(processes, Missing)
    assert [process.name for process in processes if process.kind == "compute"] == [name]


def test_the_row_of_a_process_without_its_first_bar_is_read() -> None:
    text = "2xl40s-busy.table.txt"
    assert _first(text, "|    0   N/A", "    0   N/A") == _first(text, "\n", "\n")
    assert _first(text, "|    0   N/A", "||    0   N/A") == _first(text, "\n", "\n")


def test_a_gpu_of_q_whose_line_is_damaged_keeps_its_place() -> None:
    text = (_FOLDER / "2xl40s-busy.q.txt").read_text(encoding="utf-8")
    damaged = gpus_of(parse_smi(text.replace("\nGPU 00000000:", "\nGPU 0000000:", 1), "h"))
    assert [gpu.uuid for gpu in damaged] == [gpu.uuid for gpu in gpus_of(parse_smi(text, "h"))]


def test_gpus_that_xml_counts_and_does_not_show_exist() -> None:
    text = (_FOLDER / "titan-rtx.q.xml").read_text(encoding="utf-8")
    shown, *others = gpus_of(parse_smi(text.replace("gpus>1<", "gpus>3<"), "h"))
    assert shown.name == "TITAN RTX"
    assert [str(gpu.name) for gpu in others] == [str(others[0].name)] * 2
    assert "has 3 GPUs" in str(others[0].name)


def test_a_gpu_all_of_whose_links_are_down_has_links() -> None:
    text = (_FOLDER / "8xa100-mig.nvlink.txt").read_text(encoding="utf-8")
    links = "\n".join(text.split("\n")[1:13])
    down = text.replace(links, "NVML: Unable to retrieve NVLink information as all links are inactive", 1)
    first, second, *_ = gpus_of(parse_smi(down, "h"))
    assert not isinstance(first.nvlinks, Missing)
    assert [(link.link, link.active) for link in first.nvlinks] == [(0, False)]
    assert second.nvlinks == gpus_of(parse_smi(text, "h"))[1].nvlinks
    again = gpus_of(parse_smi(text.replace("Link 4:", "Link 0:", 1), "h"))
    assert len(again) == 8
    assert isinstance(again[0].nvlinks, Missing)


def test_two_tables_of_one_host_are_not_of_two_where_a_name_of_one_is_damaged() -> None:
    text = (_FOLDER / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
    assert len(parse_hosts(text.replace("NVIDIA L40S", "       L40S", 1) + text, "h")) == 1


def test_a_name_as_long_as_a_whole_uuid_is_whole() -> None:
    name = "NVIDIA RTX PRO 2000 Blackwell Laptop GPU"
    assert _first("2xl40s-busy.q.txt", "NVIDIA L40S", name).name == name


@pytest.mark.parametrize(("option", "index"), [("-i 3", 3), ("--id=5", 5), ("-i 0,1", 0), ("", 0)])
def test_the_one_gpu_that_a_command_asks_for_has_its_number(option: str, index: int) -> None:
    said = "Attached GPUs  : 8\nGPU 00000000:5E:00.0\n    Temperature\n        GPU Current Temp  : 33 C\n"
    text = f"$ nvidia-smi -q -d TEMPERATURE {option}\n\n====NVSMI LOG====\n\n{said}"
    gpus = gpus_of(parse_smi(text, "h"))
    assert (len(gpus), [gpu.index for gpu in gpus if gpu.temperature_c == 33]) == (8, [index])


def test_a_table_that_ends_in_no_running_processes_lists_none() -> None:
    text = (_FOLDER / "titan-rtx.table.txt").read_text(encoding="utf-8")
    none = text[: text.index("No running processes found") + 30]
    assert gpus_of(parse_smi(none, "h"))[0].processes == ()


def test_a_sentence_about_a_gpu_without_its_bus_is_no_lost_gpu() -> None:
    said = '# nvidia-smi prints "Unable to determine the device handle for GPU ..."\nnvidia-smi -L\n'
    with pytest.raises(BadInput):
        parse_smi(f"{said}nvidia-smi --query-gpu=name,uuid --format=csv\n", "h")


def test_the_pods_of_kubectl_are_hosts() -> None:
    rows = [f"[pod/train-{at}/main] {line}" for at in (0, 1) for line in _table(at)]
    assert [(facts.host, gpus_of(facts)[0].name) for facts in parse_hosts("\n".join(rows), "h")] == [
        ("train-0", "NVIDIA L40S"),
        ("train-1", "NVIDIA L40S"),
    ]


def _table(pid: int) -> list[str]:
    text = (_FOLDER / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
    return text.replace("4242", f"424{pid}").rstrip("\n").split("\n")
