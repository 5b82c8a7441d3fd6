"""Recordings of several hosts and several times: no table is left out, and the last state counts."""

import json
from collections.abc import Sequence
from itertools import chain, zip_longest

import pytest

from preflight.errors import BadInput
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_HEAD = """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
_EDGE = "+-----------------------------------------+------------------------+----------------------+\n"
_LIST = """
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
_NONE = "|  No running processes found                                                             |\n"
_END = "+-----------------------------------------------------------------------------------------+\n"
_BUSES = ("07", "0F", "47", "4E")


def _table(*held: int, second: int = 2, buses: tuple[str, ...] = _BUSES) -> str:
    rows = "".join(
        f"|   {at}  NVIDIA L40S                    On  |   00000000:{bus}:00.0 Off |                    0 |\n"
        f"| N/A   31C    P8              33W / 350W |  {2 + 900 * (at in held):>6}MiB /  46068MiB |"
        "      0%      Default |\n"
        f"|{' ':41}|{' ':24}|                  N/A |\n{_EDGE}"
        for at, bus in enumerate(buses)
    )
    listed = "".join(
        f"|{at:>5}   N/A  N/A             {700 + at:>4}      C   python3"
        f"                                 900MiB |\n"
        for at in held
    )
    return f"Fri Nov 20 09:14:{second:02} 2026\n{_HEAD}{rows}{_LIST}{listed or _NONE}{_END}"


def _holders(text: str) -> dict[str, list[int]]:
    """Return {host: numbers of its GPUs that a process holds}."""
    return {facts.host: _held(gpus_of(facts)) for facts in parse_hosts(text, "h")}


def _held(gpus: Sequence[Gpu]) -> list[int]:
    return [gpu.index for gpu in gpus if not isinstance(gpu.processes, Missing) and gpu.processes]


def _tagged(tag: str, text: str) -> list[str]:
    return [f"{tag}{line}\n" for line in text.split("\n")[:-1]]


_TAGS = (
    ("(probe pid=101, ip=10.0.0.2) ", "(probe pid=77, ip=10.0.0.3) ", "10.0.0.2", "10.0.0.3"),
    ("[default0]:", "[default1]:", "default0", "default1"),
    ("smi-abc12 smi ", "smi-def34 smi ", "smi-abc12", "smi-def34"),
    ("<node1> ", "<node2> ", "node1", "node2"),
    ("node1 - ", "node2 - ", "node1", "node2"),
    ("Nov 20 09:14:02 node1 smi[12]: ", "Nov 20 09:14:03 node2 smi[1402]: ", "node1", "node2"),
    ("2026-11-20T09:14:02.123Z node1 ", "2026-11-20T09:14:03Z node2 ", "node1", "node2"),
    ("smi.1.x7kq2p1@node1    | ", "smi.2.a81kz0q@node2    | ", "node1", "node2"),
    ("node1 rank0: ", "node2 rank1: ", "node1", "node2"),
    ("[1,0]<stdout>:", "[1,1]<stdout>:", "0", "1"),
    ("(probe pid=101) ", "(probe pid=77) ", "101", "77"),
)


@pytest.mark.parametrize(("one", "two", "first", "second"), _TAGS)
@pytest.mark.parametrize("are_mixed", [False, True])
def test_hosts_are_known_by_what_differs_in_front_of_their_lines(
    one: str, two: str, first: str, second: str, *, are_mixed: bool
) -> None:
    lines = [_tagged(one, _table(3)), _tagged(two, _table(1))]
    order = chain(*zip_longest(*lines, fillvalue="")) if are_mixed else chain(*lines)
    assert _holders("".join(order)) == {first: [3], second: [1]}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2026-11-20 09:14:02,123 INFO main.py:42] ", "2026-11-20 09:15:02,123 INFO main.py:57] "),
        ("[2026-11-20 09:14:02] ", "[2026-11-20 09:15:02] "),
        ("1763629000.12 ", "1763629001.12 "),
        ("09:14 ", "09:15 "),
        ("Fri Nov 20 09:14:02 2026 ", "Sat Nov 21 09:14:02 2026 "),
        ("Thu Dec 31 23:59:59 2026 ", "Fri Jan  1 00:00:05 2027 "),
        ("11/20/26 09:14:02 am ", "11/20/26 09:14:02 pm "),
        ("11/20/26 09:14:02 ", "11/21/26 09:14:02 "),
        ("[20/Nov/2026:09:14:02 +0000] ", "[01/Dec/2026:09:14:02 +0000] "),
        ("I1120 09:14:02.000123 4242 smi.py:10] ", "W1121 09:15:02.000456 4242 smi.py:12] "),
        ("1763629000123 ", "1763629060123 "),
        ("Nov 20 09:14:02 node1 nvidia-smi[812]: ", "Nov 20 09:15:02 node1 nvidia-smi[977]: "),
        ("INFO: ", "WARNING: "),
        ("[info] ", "[warning] "),
        ("INFO:root:", "ERROR:root:"),
        ("stdout: ", "stderr: "),
        ("09:14:02 MainThread smi ", "09:14:02 Thread-1 smi "),
        ("Step 1: ", "Step 200: "),
        ("[epoch 1] ", "[epoch 2] "),
        ("iter=10 ", "iter=20 "),
        ("smi.log:1:", "smi.log:2:"),
    ],
)
def test_times_and_places_in_front_of_lines_are_of_no_other_host(one: str, two: str) -> None:
    text = "".join([*_tagged(one, _table(3)), *_tagged(two, _table(1, second=4))])
    assert _holders(text) == {"h": [1]}


def test_levels_that_change_from_line_to_line_are_of_one_host() -> None:
    for start in ("", "2026-11-20 09:14:02,123 "):
        lines = _tagged("", _table(3))
        levels = ("DEBUG", "INFO", "WARNING")
        text = "".join(f"{start}{levels[at % 3]}: {line}" for at, line in enumerate(lines))
        assert _holders(text) == {"h": [3]}


@pytest.mark.parametrize(
    "tag", ["node1: ", "[node1] ", "[rank0]: ", "smi-1  | ", "[1,0]<stdout>:", "INFO: ", "09:14:02 "]
)
def test_an_error_is_read_behind_a_tag_but_not_one_of_another_program_below_a_table(tag: str) -> None:
    driver = parse_smi("".join(_tagged(tag, _MISMATCH)), "h").driver
    assert isinstance(driver, Missing)
    assert driver.code == "library-mismatch"
    assert _holders(_table(1) + "wandb: " + _MISMATCH.partition("\n")[0] + "\n") == {"h": [1]}


@pytest.mark.parametrize("is_json", [True, False])
def test_outputs_that_json_and_yaml_have_by_host_stay_those_of_hosts(*, is_json: bool) -> None:
    outputs = {"node1": _table(3), "node2": _table(1)}
    yaml = "".join(f"{name}: |\n" + "".join(_tagged("  ", text)) for name, text in outputs.items())
    assert _holders(json.dumps(outputs, indent=1) if is_json else yaml) == {"node1": [3], "node2": [1]}


def test_lines_of_json_with_a_host_and_its_output_are_of_that_host() -> None:
    said = [{"host": "n1", "rc": 0, "stdout": _table(3)}, {"host": "n2", "rc": 127, "stdout": "sh: no\n"}]
    hosts = parse_hosts("".join(json.dumps(each) + "\n" for each in said), "h")
    assert [facts.host for facts in hosts] == ["n1", "n2"]
    assert isinstance(hosts[1].gpus, Missing)


_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n"
_LOST = "Unable to determine the device handle for GPU0000:{}:00.0: GPU is lost.  Reboot the system\n"


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        (_MISMATCH, "library-mismatch"),
        ("$ sudo apt upgrade -y\n$ nvidia-smi\n" + _MISMATCH, "library-mismatch"),
        (_LOST.format("0F"), "gpu-lost"),
        (_LOST.format("C1"), None),
        ("In the container of that host it said this instead:\n" + _MISMATCH, None),
        (_MISMATCH + "$ nvidia-smi\n" + _table(1), None),
        ("$ docker run --rm --gpus all cuda:12.4 nvidia-smi\n" + _MISMATCH, None),
        ("$ docker exec -it train bash\nroot@1a2b:/# nvidia-smi\n" + _MISMATCH, None),
        ("$ docker run -d train\n1a2b\n$ nvidia-smi\n" + _MISMATCH, "library-mismatch"),
        ("$ ssh node2 nvidia-smi\n" + _MISMATCH, None),
        ("$ nvidia-smi -i 9\nNo devices were found\n", None),
        ("$ adb devices\nNo devices were found\n", None),
        ("$ nvidia-smi -L\nNo devices were found\n", "no-devices"),
        ("$ docker compose up\nnvidia-container-cli: init error: nvml error: driver not loaded\n", None),
    ],
)
def test_an_error_of_a_later_call_is_the_state_of_the_driver(behind: str, code: str | None) -> None:
    facts = parse_smi("$ nvidia-smi\n" + _table(1) + behind, "h")
    assert (facts.driver.code if isinstance(facts.driver, Missing) else None) == code
    assert _held(gpus_of(facts)) == [1]


def test_a_gpu_whose_number_another_took_is_lost() -> None:
    first, later = _table(2), _table(2, second=9, buses=("07", "47", "4E"))
    gpus = gpus_of(parse_smi(first + later, "h"))
    assert [gpu.pci_bus_id for gpu in gpus] == [f"0000:{bus}:00.0" for bus in ("07", "47", "4e", "0f")]
    assert isinstance(gpus[3].uuid, Missing)
    assert gpus[3].uuid.code == "gpu-lost"


def test_a_last_gpu_that_a_whole_table_no_longer_has_is_lost_unless_some_were_asked_of() -> None:
    texts = _table(), _table(second=9, buses=_BUSES[:3])
    names = [gpus_of(parse_smi(mark.join(texts), "h"))[3].name for mark in ("", "$ nvidia-smi -i 0,1,2\n")]
    assert [isinstance(name, Missing) for name in names] == [True, False]


@pytest.mark.parametrize(
    "between", ["", "$ docker ps\n", "$ docker run -d train\n", "$ nvidia-smi -L\nGPU 0\n"]
)
def test_a_gpu_that_a_later_call_lacks_is_lost_whatever_else_was_called(between: str) -> None:
    later = _table(second=9, buses=("07", "47", "4E"))
    gpus = gpus_of(parse_smi(f"$ nvidia-smi\n{_table()}{between}$ nvidia-smi\n{later}", "h"))
    assert [gpu.pci_bus_id for gpu in gpus if isinstance(gpu.name, Missing)] == ["0000:0f:00.0"]


def test_an_error_in_the_container_whose_gpus_were_listed_counts() -> None:
    call = "$ docker exec train nvidia-smi\n"
    driver = parse_smi(f"{call}{_table(1)}{call}{_MISMATCH}", "h").driver
    assert isinstance(driver, Missing)


def test_the_last_whole_table_of_a_loop_counts_where_the_next_is_cut() -> None:
    assert _holders(_table(1, second=2) + _table(3, second=4)[:-900]) == {"h": [1]}


@pytest.mark.parametrize(
    "mark", ["... [4312 characters truncated] ...", "<output omitted>", "[...]", "\u2026"]
)
def test_gpus_may_be_left_out_where_a_mark_stands_for_lines_of_a_table(mark: str) -> None:
    lines = _table(1).split("\n")
    text = "\n".join([*lines[:14], mark, *lines[23:]])
    first, second = gpus_of(parse_smi(text, "h"))
    assert isinstance(first.processes, Missing)
    assert "at least 2 GPUs" in first.processes.reason
    assert second.processes


def test_rows_of_processes_alone_say_nothing_of_other_gpus() -> None:
    rows = [line for line in _table(0, 2).split("\n") if "python3" in line]
    gpus = gpus_of(parse_smi("\n".join(rows) + "\n", "h"))
    assert [isinstance(gpu.processes, Missing) for gpu in gpus] == [False, True, False]


def test_memory_of_a_process_is_known_without_the_edge_behind_it() -> None:
    text = "\n".join(line.rstrip("| ") for line in _table(1).split("\n"))
    processes = gpus_of(parse_smi(text, "h"))[1].processes
    assert not isinstance(processes, Missing)
    assert [holder.used_mib for holder in processes] == [900]


def test_memory_of_a_gpu_above_the_start_of_a_file_is_not_called_cut() -> None:
    lines = _table(1).split("\n")
    memory = gpus_of(parse_smi("\n".join(lines[20:]), "h"))[1].memory
    assert isinstance(memory, Missing)
    assert "cut at this value" not in memory.reason


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("-bash: nvidia-smi: Kommando nicht gefunden.", "no-library"),
        ("bash: nvidia-smi : commande introuvable", "no-library"),
        ("bash: /usr/bin/nvidia-smi: Permission denied", "no-permission"),
        (
            (
                "docker: Error response from daemon: failed to create task for container: "
                'OCI runtime create failed: exec: "nvidia-smi": executable file not found in $PATH'
            ),
            "no-library",
        ),
    ],
)
def test_a_shell_that_starts_no_nvidia_smi_is_understood_in_its_words(said: str, code: str) -> None:
    driver = parse_smi(said + "\n", "h").driver
    assert isinstance(driver, Missing)
    assert driver.code == code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('Field "gpu_temp" is not a valid field to query.\n', "an option is wrong"),
        ("NVSMI provides monitoring information for Tesla devices.\n", "the help of nvidia-smi"),
        ("0, 50 %, 100 MiB\n1, 0 %, 3 MiB\n", "without the names"),
        ("name, memory.used [MiB]\n" + "NVIDIA A100, 3 MiB\nNVIDIA L4, 9 MiB\n" * 4, "at least 2"),
        ("memory.used [MiB], memory.total [MiB]\n" + "3 MiB, 9 MiB\n8 MiB, 9 MiB\n" * 9, "1 .of no name."),
        ("GPU 0: NVIDIA L4\nepoch 1\n", "unrecognised"),
    ],
)
def test_a_text_without_a_listing_of_gpus_is_refused_for_what_it_is(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_smi(text, "h")


@pytest.mark.parametrize(("row_ms", "pause_ms", "is_clear"), [(2, 36, True), (6, 18, False)])
def test_a_fast_loop_is_read_by_the_one_pause_that_comes_again(
    row_ms: int, pause_ms: int, *, is_clear: bool
) -> None:
    times = [at * row_ms + at // 8 * (pause_ms - row_ms) for at in range(80)]
    rows = [f"2026/11/20 09:14:{2 + at // 1000:02}.{at % 1000:03}, NVIDIA L4, {at % 100} %\n" for at in times]
    text = "timestamp, name, utilization.gpu [%]\n" + "".join(rows)
    if is_clear:
        assert len(gpus_of(parse_smi(text, "h"))) == 8
    else:
        with pytest.raises(BadInput, match="at least 1"):
            parse_smi(text, "h")


def test_a_cut_table_that_shows_memory_newly_in_use_is_not_replaced_by_one_before() -> None:
    gpus = gpus_of(parse_smi(_table(second=2) + _table(1, second=4)[:-900], "h"))
    assert all(isinstance(gpu.processes, Missing) for gpu in gpus)


@pytest.mark.parametrize("command", ["docker exec train nvidia-smi", "nvidia-smi -i 0,2,3"])
def test_a_call_that_sees_some_gpus_alone_says_of_none_that_it_is_lost(command: str) -> None:
    some = _table(second=9, buses=("07", "47", "4E"))
    gpus = gpus_of(parse_smi(f"$ nvidia-smi\n{_table()}$ {command}\n{some}", "h"))
    assert [gpu.name for gpu in gpus] == ["NVIDIA L40S"] * 4


def test_a_list_of_gpus_without_their_uuids_names_them() -> None:
    gpus = gpus_of(parse_smi("GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA L4\n", "h"))
    assert [str(gpu.name).removesuffix("...") for gpu in gpus] == ["NVIDIA A100-SXM4-80GB", "NVIDIA L4"]
    assert all(isinstance(gpu.processes, Missing) for gpu in gpus)


@pytest.mark.parametrize("kept", [_BUSES[:1], _BUSES[:2], _BUSES[::2], _BUSES[2:]])
def test_gpus_that_the_last_table_lacks_are_not_those_of_the_first(kept: tuple[str, ...]) -> None:
    """Where half of them or more are missing, they may be lost, or hidden in a container: it is not known."""
    text = f"{_table()}\nAnd today:\n\n{_table(buses=kept, second=9)}"
    gpus = gpus_of(parse_smi(text, "h"))
    assert [isinstance(gpu.name, Missing) and gpu.name.code for gpu in gpus] == (
        [False] * len(kept) + ["not-asked"] * (4 - len(kept))
    )
    assert "the last does not" in str(gpus[-1].processes)
    in_container = text.replace("And today:\n", "$ docker run --gpus 2 cuda:12 nvidia-smi")
    assert not any(isinstance(gpu.name, Missing) for gpu in gpus_of(parse_smi(in_container, "h")))


def _q(attached: int, *numbers: int, uuid: str = "GPU-1a7c0de{}-0000-4000-8000-000000000000") -> str:
    shown = "".join(
        f"GPU 00000000:{_BUSES[at]}:00.0\n    GPU UUID : {uuid.format(at)}\n    Processes : None\n"
        for at in numbers
    )
    return f"==============NVSMI LOG==============\n\nAttached GPUs : {attached}\n{shown}"


def test_a_log_that_counts_more_gpus_than_it_shows_has_lost_none() -> None:
    facts = parse_smi(_q(4, 0, 1, 2, 3) + _q(4, 2), "h")
    assert [gpu.processes for gpu in gpus_of(facts)] == [()] * 4


def test_logs_with_the_same_buses_and_other_uuids_are_of_two_hosts() -> None:
    other = "GPU-2b7c0de{}-0000-4000-8000-000000000000"
    hosts = parse_hosts(_q(4, 0, 1, 2, 3) + _q(4, 0, 1, 2, 3, uuid=other), "h")
    assert [str(gpus_of(facts)[0].uuid)[:6] for facts in hosts] == ["GPU-1a", "GPU-2b"]


def test_a_column_of_hosts_separates_their_rows() -> None:
    rows = "n1, 0, NVIDIA L4\nn1, 1, NVIDIA L4\nn2, 0, NVIDIA L40S\n"
    hosts = parse_hosts(f"host, index, name\n{rows}", "h")
    assert [(facts.host, [gpu.name for gpu in gpus_of(facts)]) for facts in hosts] == [
        ("n1", ["NVIDIA L4", "NVIDIA L4"]),
        ("n2", ["NVIDIA L40S"]),
    ]


def test_before_and_after_name_states_of_one_host() -> None:
    text = "".join([*_tagged("before: ", _table()), *_tagged("after:  ", _table(1, second=9))])
    assert _holders(text) == {"h": [1]}


@pytest.mark.parametrize(
    ("second", "held"),
    [("Fri Nov 20 09:14:42 2026", [1]), ("Fri Nov 20 09:14:02 2026", [1]), ("Sat Nov 21 08:00:00 2026", [])],
)
def test_a_table_of_another_moment_says_nothing_of_who_holds_a_gpu_now(second: str, held: list[int]) -> None:
    later = _table(1).replace("python3                                 900MiB", "")
    later = _NONE.join([later[: later.index("|    1   N/A")], _END])
    assert "902MiB" in later
    assert _held(gpus_of(parse_smi(f"{_table(1)}\n{second}\n{later.partition(chr(10))[2]}", "h"))) == held
