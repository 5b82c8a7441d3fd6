"""Layouts of nvidia-smi from driver 325 to 580, and what pastes and collectors put around their lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.errors import BadInput
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_LOST = "lost"
_SECTIONS = Path(__file__).with_name("smi_layouts.txt").read_text(encoding="utf-8").split("### ")[1:]
_LAYOUTS = {name: (json.loads(expected), text) for name, expected, text in (
    (*section.partition("\n")[0].split("\t"), section.partition("\n")[2]) for section in _SECTIONS
)}  # fmt: skip
_TABLE = _LAYOUTS["driver384"][1]
_Q = """==============NVSMI LOG==============

Driver Version                      : 410.72
Attached GPUs                       : 1
GPU 00000000:01:00.0
    Product Name                    : GeForce GTX 960M
    FB Memory Usage
        Total                       : 2004 MiB
        Used                        : 433 MiB
        Free                        : 1571 MiB
    Processes
        Process ID                  : 3264
            Type                    : C
            Name                    : python
            Used GPU Memory         : 421 MiB
"""
_STAMP = "2025-11-12T03:22:{:02d}.123456789Z"


def _seen(facts: HostFacts) -> list[list[Any]]:
    """Return name, used and total memory, and pids of each GPU; None for what is unknown."""
    return [
        [
            None if isinstance(gpu.name, Missing) else gpu.name,
            None if isinstance(gpu.memory, Missing) else [gpu.memory.used_mib, gpu.memory.total_mib],
            None if isinstance(gpu.processes, Missing) else [each.pid for each in gpu.processes],
        ]
        for gpu in gpus_of(facts)
    ]


@pytest.mark.parametrize("layout", sorted(_LAYOUTS))
def test_a_layout_is_read_whole(layout: str) -> None:
    expected, text = _LAYOUTS[layout]
    seen = _seen(parse_smi(text, "host"))
    assert seen == [[None if name == _LOST else name, memory, pids] for name, memory, pids in expected]


@pytest.mark.parametrize(
    "prefix",
    [
        "> ", ">", "    ", "{0:>4}  ", "{0} | ", "trainer-1  | ", _STAMP + " ", _STAMP + " stdout F ",
        "0: ", "[rank0]: ", "2025-11-12 03:22:{0:02d},001 - INFO - ", "node1: ", "(main pid=77) ",
    ],
)  # fmt: skip
def test_what_is_in_front_of_every_line_is_taken_away(prefix: str) -> None:
    for text in (_TABLE, _Q, _LAYOUTS["csv-units"][1]):
        lines = "\n".join(prefix.format(at % 60) + line for at, line in enumerate(text.splitlines(), 1))
        assert _seen(parse_smi(lines, "host")) == _seen(parse_smi(text, "host")), text


@pytest.mark.parametrize(
    "surround",
    [
        "Every 2.0s: nvidia-smi    node7: Wed Nov 12\n\n{}",
        "GPUs:\n```txt\n{}```\n",
        "u@node7:~$ nvidia-smi\n{}u@node7:~$ \n",
    ],
)
def test_what_is_around_a_table_changes_nothing(surround: str) -> None:
    assert _seen(parse_smi(surround.format(_TABLE), "host")) == _seen(parse_smi(_TABLE, "host"))


def test_prefixes_of_two_hosts_are_refused_and_no_board_is_merged() -> None:
    both = "\n".join(f"{host}: {line}" for host in ("node1", "node2") for line in _TABLE.splitlines())
    with pytest.raises(BadInput, match="several hosts"):
        parse_smi(both, "host")


def test_memory_that_a_board_does_not_report_is_not_called_cut() -> None:
    for layout, code in (
        ("gb10", "not-supported"),
        ("mig-no-permission", "no-permission"),
        ("row-of-errors", "gpu-lost"),
    ):
        memory = gpus_of(parse_smi(_LAYOUTS[layout][1], "host"))[0].memory
        assert isinstance(memory, Missing)
        assert memory.code == code
