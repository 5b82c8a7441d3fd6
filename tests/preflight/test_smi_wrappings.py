"""Outputs within strings, behind tags of programs and below an author's words about them."""

import json
from collections.abc import Callable

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_LIST = """GPU 0: NVIDIA L4 (UUID: GPU-0f7e3c11-8a42-4b1d-9c55-3f1e2d4c5b6a)
GPU 1: NVIDIA L4 (UUID: GPU-1a2b3c4d-5e6f-4a1b-8c9d-0e1f2a3b4c5d)
"""
_DMON = """# gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     %     %     %     %   MHz   MHz
    0    31    44     7     2     0     0  5001   705
    1    29    41     0     0     0     0   405   210
"""
_MIG = """| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA A30                     On  |   00000000:27:00.0 Off |                   On |
| N/A   33C    P0             31W /  165W |     N/A                |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
|  0    1   0   0  |              13MiB / 11968MiB    | 28      0 |  2   0    2    0    0 |
+------------------+----------------------------------+-----------+-----------------------+
| Processes:                                                                              |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
_WINDOWS = """| NVIDIA-SMI 551.23                 Driver Version: 551.23         CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA RTX A2000             WDDM  |   00000000:01:00.0  On |                  Off |
| 30%   37C    P8              6W /   70W |     410MiB /   6138MiB |      1%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|    0   N/A  N/A      4412    C+G   C:\\tools\\new\\render.exe               N/A      |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize("text", [_LIST, _DMON])
@pytest.mark.parametrize(
    "quoted", [lambda text: json.dumps({"rc": 0, "stdout": text}), lambda text: f"stdout={text.encode()!r}"]
)
def test_strings_begin_where_their_quote_is(text: str, quoted: Callable[[str], str]) -> None:
    assert gpus_of(parse_smi(quoted(text), "host")) == gpus_of(parse_smi(text, "host"))


def test_backslashes_of_strings_are_those_of_paths() -> None:
    for quoted in (json.dumps({"stdout": _WINDOWS}), repr(_WINDOWS)):
        (gpu,) = gpus_of(parse_smi(quoted, "host"))
        assert not isinstance(gpu.processes, Missing)
        assert [process.name for process in gpu.processes] == [r"C:\tools\new\render.exe"]


def test_a_tag_in_parentheses_is_no_list_within_a_line() -> None:
    tagged = "".join(f"\x1b[36m(main_task pid=4711)\x1b[0m {line}\n" for line in _LIST.splitlines())
    assert gpus_of(parse_smi(tagged, "host")) == gpus_of(parse_smi(_LIST, "host"))


@pytest.mark.parametrize("above", ["Check that it shows MIG devices: one", "Its list of Processes: none"])
def test_words_above_a_table_are_none_of_its_headings(above: str) -> None:
    assert gpus_of(parse_smi(f"{above}\n\n{_MIG}", "host")) == gpus_of(parse_smi(_MIG, "host"))


def test_words_above_a_table_close_no_list_of_processes() -> None:
    cut = _WINDOWS.partition("| Processes:")[0]
    (gpu,) = gpus_of(parse_smi(f"Its list of Processes: none\n\n{cut}", "host"))
    assert isinstance(gpu.processes, Missing)
    assert "cut before its list" in gpu.processes.reason


_XID = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
_FALLEN = "NVRM: GPU 0000:65:00.0: GPU has fallen off the bus."


@pytest.mark.parametrize("said", [_XID, _FALLEN])
@pytest.mark.parametrize(
    "mark",
    ["gpu07: ", "12:", "[rank0]:", "worker-1  | ", "+", "kern.log-", "node kernel: ", 'level=err msg="'],
)
def test_xids_are_read_behind_marks_of_lines(mark: str, said: str) -> None:
    log = parse_smi(f"{mark}{said}\n", "host").kernel_log
    assert not isinstance(log, Missing)
    assert [(xid.code, xid.pci_bus_id) for xid in log.xids] == [(79, "0000:65:00.0")]


@pytest.mark.parametrize(
    "quote",
    [
        f"If dmesg shows `{_XID}`, power-cycle the node.",
        f'The log says "{_FALLEN}" then.',
        f"# e.g. {_XID}",
        f"* Parse lines like {_XID}",
        f'SAMPLE = "{_XID}"',
        "NVRM: Xid (PCI:0000:65:00): 79 means that the GPU is gone.",
        "- NVRM: Xid (PCI:0000:65:00): 79 means that the GPU is gone.",
    ],
)
def test_xids_that_an_author_quotes_are_those_of_no_host(quote: str) -> None:
    with pytest.raises(BadInput):
        parse_smi(f"{quote}\n", "host")
    assert isinstance(parse_smi(f"{quote}\n\n{_LIST}", "host").kernel_log, Missing)
    log = parse_smi(f"{quote}\n\n[ 12.345678] NVRM: Xid (PCI:0000:21:00): 31, pid=7\n", "host").kernel_log
    assert not isinstance(log, Missing)
    assert [xid.code for xid in log.xids] == [31]
