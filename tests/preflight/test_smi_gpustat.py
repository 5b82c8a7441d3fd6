"""What gpustat prints is read for names, memory and processes, and no pid is made up."""

import json

import pytest

from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_HEAD = "node1  Mon Nov 16 10:00:00 2026  535.104.05\n"
_ROWS = (
    "[0] NVIDIA A100-SXM4-80GB | 35°C,   0 % |     4 / 81920 MB |\n"
    "[1] NVIDIA A100-SXM4-80GB | 65'C,  99 %,  300 / 400 W | 40000 / 81920 MB | ann(39990M) bob(10M)\n"
)


def _json(**changes: object) -> str:
    gpu = {
        "uuid": "GPU-b880161d-d33a-5723-859a-f4e8e956b3aa",
        "name": "NVIDIA A100-SXM4-80GB",
        "temperature.gpu": 35,
        "utilization.gpu": 0,
        "power.draw": None,
        "memory.used": 40000,
        "memory.total": 81920,
        "processes": [
            {
                "command": "python",
                "full_command": ["python", *["--x"] * 40],
                "gpu_memory_usage": 39990,
                "pid": 7,
            }
        ],
        **changes,
    }
    head = {"hostname": "node1", "driver_version": "535.104.05", "query_time": "2026-11-16T10:00:00"}
    return json.dumps(
        {**head, "gpus": [{**gpu, "index": at, "uuid": f"{str(gpu['uuid'])[:-1]}{at}"} for at in range(2)]},
        indent=4,
    )


@pytest.mark.parametrize(
    "text",
    [
        _HEAD + _ROWS,
        f"ann@node1:~$ gpustat -P\n{_HEAD}{_ROWS}",
        "".join(f"> {line}\n" for line in (_HEAD + _ROWS).split("\n")),
        " ".join((_HEAD + _ROWS).split()),
        (_HEAD + _ROWS).replace("| 40000", "| [||||    ] 40000"),
    ],
)
def test_rows_say_names_memory_and_who_holds_a_gpu(text: str) -> None:
    facts = parse_smi(text, "host")
    free, held = gpus_of(facts)
    assert "535.104.05" in str(facts.driver)
    assert (free.name, free.capability, free.temperature_c, free.processes) == (
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        35,
        (),
    )
    assert not isinstance(held.memory, Missing)
    assert (held.memory.used_mib, held.memory.total_mib, held.power_w) == (40000, 81920, 300)
    assert isinstance(held.processes, Missing)
    assert "ann(39990M) bob(10M)" in held.processes.reason


def test_rows_with_pids_list_processes_and_the_desktop_holds_nothing() -> None:
    (_, held) = gpus_of(
        parse_smi(_ROWS.replace("ann(", "ann:python/123(").replace("bob(", "bob:Xorg/44("), "h")
    )
    assert not isinstance(held.processes, Missing)
    assert [(each.pid, each.kind, each.used_mib) for each in held.processes] == [
        (44, "graphics", 10),
        (123, "compute", 39990),
    ]


def test_pids_are_those_of_the_full_commands_below_a_row() -> None:
    below = " ├─  123 (  99%,   2.3GB): python train.py\nwhose line a terminal wrapped\n"
    last = " └─   44 (   0%,  90.0MB): /usr/lib/xorg/Xorg vt1\n"
    (_, held) = gpus_of(parse_smi(_ROWS + below + last, "h"))
    assert not isinstance(held.processes, Missing)
    assert [(each.pid, each.kind, each.used_mib) for each in held.processes] == [
        (44, "graphics", 10),
        (123, "compute", 39990),
    ]
    assert "no pid" in str(gpus_of(parse_smi(_ROWS + below, "h"))[1].processes)


def test_the_last_of_several_states_counts_and_hosts_are_separated() -> None:
    (facts,) = parse_hosts(_HEAD + _ROWS + _HEAD + _ROWS.replace("40000", "50000"), "h")
    assert [gpu.memory.used_mib for gpu in gpus_of(facts) if not isinstance(gpu.memory, Missing)] == [
        4,
        50000,
    ]
    both = parse_hosts(_HEAD + _ROWS + _HEAD.replace("node1", "node2") + _ROWS, "h")
    assert [(host.host, len(gpus_of(host))) for host in both] == [("node1", 2), ("node2", 2)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (_ROWS[:-8], "cut within"),
        (_ROWS[:-24], "cut before"),
        (_ROWS.replace("ann(39990M) bob(10M)", "(Not Supported)"), "N/A"),
    ],
)
def test_a_list_of_processes_that_is_cut_or_not_there_is_missing(rows: str, words: str) -> None:
    assert words in str(gpus_of(parse_smi(rows, "h"))[1].processes)


def test_a_row_that_is_cut_is_a_gpu_of_which_nothing_is_known() -> None:
    first, cut = gpus_of(parse_smi(_ROWS[:70], "h"))
    assert first.name == "NVIDIA A100-SXM4-80GB"
    assert isinstance(cut.name, Missing)


def test_its_json_is_read_whole_or_cut() -> None:
    for text in (_json(), json.dumps(json.loads(_json()))):
        first, _ = gpus_of(parse_smi(text, "h"))
        assert (first.uuid, first.temperature_c) == ("GPU-b880161d-d33a-5723-859a-f4e8e956b3a0", 35)
        assert isinstance(first.power_w, Missing)
        assert not isinstance(first.processes, Missing)
        assert [each.pid for each in first.processes] == [7]
    first, cut = gpus_of(parse_smi(_json()[:-300], "h"))
    assert isinstance(first.name, str)
    assert isinstance(cut.name, Missing)


def test_json_without_processes_or_memory_leaves_them_unknown() -> None:
    first, _ = gpus_of(parse_smi(_json(processes=None, **{"memory.used": None}), "h"))
    assert isinstance(first.processes, Missing)
    assert isinstance(first.memory, Missing)
