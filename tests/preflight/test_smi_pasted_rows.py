"""Tables that a page took apart, and the panel of nvitop: read as what nvidia-smi printed."""

import re

import pytest

from preflight.errors import BadInput
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_TABLE = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   31C    P0    62W / 400W |  20000MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM...  On   | 00000000:0F:00.0 Off |                    0 |
| N/A   33C    P0    63W / 400W |      7MiB / 81920MiB |     40%   E. Process |
|                               |                      |             Enabled* |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A      1032      C   python -m a                     19990MiB |
+-----------------------------------------------------------------------------+
"""


def _facts(facts: HostFacts) -> list[object]:
    return [facts.driver, *gpus_of(facts)]


@pytest.mark.parametrize(
    "pasted",
    [
        _TABLE.replace("\n", " "),
        " ".join(_TABLE.split()),
        _TABLE.replace("\n", ""),
        _TABLE.replace("|", " "),
        re.sub(" +", " ", _TABLE.replace("|", " ")),
        _TABLE.replace("00000000:", ""),
        _TABLE.replace("00000000:", "00000000:").replace("|", "\u2502"),
        "<p>" + _TABLE.replace(" ", "&nbsp;").replace("\n", "<br/>\n") + "</p>",
        "GPUs:\n\n" + re.sub("^", "   ", _TABLE, flags=re.MULTILINE).rstrip() + "\n\nSo far.\n" * 9,
    ],
    ids=[
        "one line",
        "one line of words",
        "no line ends",
        "no bars",
        "no bars, one blank",
        "no domain",
        "boxes",
        "blanks of a page",
        "an indented block",
    ],
)
def test_a_table_that_a_page_took_apart_is_read_whole(pasted: str) -> None:
    assert _facts(parse_smi(pasted, "h")) == _facts(parse_smi(_TABLE, "h"))


def test_a_table_on_one_line_without_bars_is_refused_in_a_line_that_says_so() -> None:
    with pytest.raises(BadInput, match="a table of nvidia-smi on one line, whose rows are not whole"):
        parse_smi(" ".join(re.sub(r"[|+=]|-{5,}", " ", _TABLE).split()), "h")


def test_a_list_of_gpus_takes_over_the_sizes_of_a_csv_below_it() -> None:
    uuid = "GPU-0a1b2c3d-0000-1111-2222-33334444555"
    listed = "".join(f"GPU {at}: NVIDIA A40 (UUID: {uuid}{at})\n" for at in range(2))
    rows = "".join(f"{at}, NVIDIA A40, {at + 5} MiB, 46068 MiB\n" for at in range(2))
    found = gpus_of(parse_smi(f"{listed}index, name, memory.used [MiB], memory.total [MiB]\n{rows}", "h"))
    used = [gpu.memory.used_mib for gpu in found if not isinstance(gpu.memory, Missing)]
    assert (used, [gpu.uuid for gpu in found]) == ([5, 6], [f"{uuid}0", f"{uuid}1"])


def test_a_table_in_front_of_one_that_is_cut_keeps_its_gpus() -> None:
    again = f"{_TABLE[_TABLE.index('|   1') :]}Wed Jan 29 09:22:00 2020\n{_TABLE[:300]}"
    unknown, found = gpus_of(parse_smi(again, "h"))
    assert isinstance(unknown.name, Missing)
    assert (found.name, found.temperature_c) == ("NVIDIA A100-SXM...", 33)


def test_a_table_that_is_cut_keeps_the_gpus_that_gpustat_lists_above_it() -> None:
    rows = "".join(f"[{at}] NVIDIA A100-SXM4-80GB | 27'C,   0 % |   {at} / 81920 MB |\n" for at in range(3))
    cut = _TABLE[: _TABLE.index("|   1  NVIDIA")]
    found = gpus_of(parse_smi(f"node1  Mon Aug 22 15:23:57 2022  525.60.13\n{rows}{cut}", "h"))
    assert [gpu.temperature_c for gpu in found] == [31, 27, 27]
    assert [gpu.index for gpu in found] == [0, 1, 2]


def test_what_a_cut_in_the_list_of_processes_leaves_open_says_so() -> None:
    for end in ("|  GPU   GI", "|    0   N/A"):
        gpu = gpus_of(parse_smi(_TABLE[: _TABLE.index(end)], "h"))[1]
        assert "the file is cut in its list of processes" in str(gpu.processes)
        assert not isinstance(gpu.memory, Missing)


def test_sizes_in_bold_are_read() -> None:
    bold = _TABLE.replace("20000MiB", "**20000MiB**")
    assert _facts(parse_smi(bold, "h")) == _facts(parse_smi(_TABLE, "h"))


_PANEL = """Tue Oct 10 12:00:00 2023
╒═════════════════════════════════════════════════════════════════════════════╕
│ NVITOP 1.3.0       Driver Version: 525.60.13      CUDA Driver Version: 12.0 │
├───────────────────────────────┬──────────────────────┬──────────────────────┤
│ GPU  Name        Persistence-M│ Bus-Id        Disp.A │ Volatile Uncorr. ECC │
│ Fan  Temp  Perf  Pwr:Usage/Cap│         Memory-Usage │ GPU-Util  Compute M. │
╞═══════════════════════════════╪══════════════════════╪══════════════════════╡
│   0  GeForce RTX 3090    Off  │ 00000000:05:00.0 Off │                  N/A │
│ 41%   64C    P2   294W / 350W │  20.28GiB / 24.00GiB │    100%      Default │
├───────────────────────────────┼──────────────────────┼──────────────────────┤
│   1  GeForce RTX 3090    Off  │ 00000000:06:00.0 Off │                  N/A │
│ 30%   31C    P8    20W / 350W │    3.2MiB / 24.00GiB │      0%      Default │
╘═══════════════════════════════╧══════════════════════╧══════════════════════╛
[ CPU: ▏ 1.0%                          ]  ( Load Average:  1.85  1.50  1.45 )

╒═════════════════════════════════════════════════════════════════════════════╕
│ Processes:                                                        ann@node1 │
│ GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM    TIME  COMMAND             │
╞═════════════════════════════════════════════════════════════════════════════╡
{}
╘═════════════════════════════════════════════════════════════════════════════╛
"""
_TRAINS = "│   0  123456 C     ann 20.20GiB  99   101   3.1  1:02:03  python train.py    │"
_IDLE = "│  No running processes found                                                 │"


@pytest.mark.parametrize("bars", ["", " MEM: ████▏ 92.7% │"])
def test_nvitop_says_names_memory_and_the_processes_that_its_screen_holds(bars: str) -> None:
    text = (
        re.sub(r"(?<=Default │)|(?<=  N/A │)", bars, _PANEL.format(_TRAINS))
        if bars
        else _PANEL.format(_TRAINS)
    )
    facts = parse_smi(text, "h")
    held, other = gpus_of(facts)
    assert "525.60.13" in str(facts.driver)
    assert [gpu.name for gpu in (held, other)] == ["GeForce RTX 3090"] * 2
    sizes = [
        (gpu.memory.used_mib, gpu.memory.total_mib)
        for gpu in (held, other)
        if not isinstance(gpu.memory, Missing)
    ]
    assert sizes == [(20767, 24576), (3, 24576)]
    assert not isinstance(held.processes, Missing)
    assert [(one.pid, one.kind, one.name) for one in held.processes] == [(123456, "compute", "python")]
    assert isinstance(other.processes, Missing)
    assert "as its screen holds" in other.processes.reason


_COMPACT = (
    "│ GPU Fan Temp Perf Pwr:Usg/Cap │         Memory-Usage │ GPU-Util  Compute M. │\n"
    "╞═══════════════════════════════╪══════════════════════╪══════════════════════╡\n"
    "│   0 41%  64C P2  294W / 350W  │  20.28GiB / 24.00GiB │    100%      Default │\n"
    "├───────────────────────────────┼──────────────────────┼──────────────────────┤\n"
    "│   1 N/A  31C P8   20W / 350W  │      3MiB / 24.00GiB │      0%      Default │\n"
)


def test_the_compact_view_of_nvitop_says_memory_and_processes_without_names() -> None:
    head, rest = _PANEL.format(_TRAINS).split("│ GPU  Name")
    held, other = gpus_of(parse_smi(head + _COMPACT + rest[rest.index("╘") :], "h"))
    assert not isinstance(held.memory, Missing)
    assert (held.memory.used_mib, held.power_w, held.compute_mode) == (20767, 294, "default")
    assert not isinstance(held.processes, Missing)
    assert [one.pid for one in held.processes] == [123456]
    assert other.temperature_c == 31
    assert isinstance(held.name, Missing)


@pytest.mark.parametrize("name", ["│ NVITOP", "│ nvitop", "NVITOP"])
def test_nvitop_that_says_that_nothing_runs_lists_no_process(name: str) -> None:
    text = _PANEL.format(_IDLE).replace("│ NVITOP", name)
    assert [gpu.processes for gpu in gpus_of(parse_smi(text, "h"))] == [(), ()]
