"""Notes about hosts: headings that name them, lists of processes beside, and texts about errors alone."""

from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts

_SMI = Path(__file__).with_name("smi")
_HELD = (_SMI / "2xl40s-held-by-nobody.table.txt").read_text(encoding="utf-8")
_TABLE = (_SMI / "2xl40s-busy.table.txt").read_text(encoding="utf-8")
_LSOF = """\
$ lsof /dev/nvidia*
COMMAND     PID USER   FD   TYPE  DEVICE SIZE/OFF NODE NAME
Xorg       1200 root  mem    CHR   195,0          1012 /dev/nvidia0
gnome-she  1300  ana  mem    CHR   195,0          1012 /dev/nvidia0
python     4411  ana  mem    CHR   195,0          1012 /dev/nvidia0
python     4411  ana    9u   CHR   195,0      0t0 1012 /dev/nvidia0
nvitop     4412  ana    5u   CHR   195,0      0t0 1012 /dev/nvidia0
"""
_LOST = "Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error\n"
_MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("## Node A", "## Node B", ["Node-A", "Node-B"]),
        ("**node-a**", "**node-b**", ["node-a", "node-b"]),
        ("On gpu01:", "On gpu02:", ["gpu01", "gpu02"]),
        ("Server 1:", "Server 2:", ["Server-1", "Server-2"]),
        ("### Host: gpu1", "### Host: gpu2", ["gpu1", "gpu2"]),
        ("## Node 0 (10.0.0.4)", "## Node 1 (10.0.0.5)", ["Node-0", "Node-1"]),
        ("- node-a:", "- node-b:", ["node-a", "node-b"]),
        ("hostname: test1", "hostname: test2", ["test1", "test2"]),
        (
            "Every 2.0s: nvidia-smi  gpu1: Sun Nov 22",
            "Every 2.0s: nvidia-smi  gpu2: Sun Nov 22",
            ["gpu1", "gpu2"],
        ),
    ],
)
def test_headings_name_hosts_whose_buses_are_the_same(first: str, second: str, names: list[str]) -> None:
    text = f"{first}\n\n```\n{_TABLE}```\n\n{second}\n\n```\n{_TABLE}```\n"
    assert [facts.host for facts in parse_hosts(text, "host")] == names
    quoted = "".join(f"> {line}\n" for line in text.split("\n"))
    assert [facts.host for facts in parse_hosts(quoted, "host")] == names


_STATES = [
    "## 2025-11-2{}",
    "On 2025-11-2{}:",
    "**run-{}**",
    "### Step {}",
    "**epoch-{}**",
    "## 2{}-Nov-2025",
    "part{}:",
]


@pytest.mark.parametrize("heading", _STATES)
def test_days_and_runs_are_states_of_one_host(heading: str) -> None:
    text = "".join(f"{heading.format(at)}\n\n{_TABLE}\n" for at in (1, 2))
    assert [facts.host for facts in parse_hosts(text, "host")] == ["host"]


def test_those_that_lsof_shows_to_map_a_gpu_hold_it() -> None:
    (facts,) = parse_hosts(_HELD + _LSOF, "host")
    assert not isinstance(facts.gpus, Missing)
    listed = [gpu.processes for gpu in facts.gpus]
    assert [[(one.pid, one.name) for one in each] for each in listed if not isinstance(each, Missing)] == [
        [(4411, "python")],
        [],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_LSOF.partition("\n")[2], "lists processes"),
        ("USER       PID %CPU COMMAND\nana       4411  101 python train.py\n", "lists processes"),
        (f"Ticket 12\nStatus: CLOSED\n\n{_LOST}\nReseated on Monday.\n", "about an error"),
        (f"# FAQ\n\nWhat this means:\n\n{_MISMATCH}", "about an error"),
        (f"usage: check [-h]\n\nLooks for:\n\n  {_MISMATCH}", "about an error"),
        (f"Q: what is this?\n\n{_MISMATCH}\nA: an old module.\n", "about an error"),
        (f"If `nvidia-smi` prints\n\n{_MISMATCH}\nstart the host again.\n", "about an error"),
        (f"Known messages:\n\n{_MISMATCH}No devices were found\n", "about an error"),
        ("#!/bin/bash\n# GPU 0: NVIDIA L4 (UUID: GPU-84fd49f2-48ad-50e8-9f2e-3bf0dfd47ccb)\nls\n", "script"),
    ],
)
def test_a_text_without_the_gpus_of_a_host_says_what_it_is(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_hosts(text, "host")


@pytest.mark.parametrize(
    "text",
    [
        f"Status: open\n\n{_LOST}",
        f"# nvidia-smi fails?\n\n{_LOST}",
        f"{_LOST}No devices were found\n",
        f"Resolution: Unresolved\n\n{_LOST}",
        f"$ cloud-init status\nstatus: done\n$ nvidia-smi\n{_MISMATCH}",
        f"$ nvidia-smi\n{_MISMATCH}$ python train.py --gpu\nusage: train.py [-h]\n",
        f"$ nvidia-smi\n{_MISMATCH}$ sudo nvidia-smi\nNo devices were found\n",
    ],
)
def test_an_error_that_a_host_still_has_is_its_state(text: str) -> None:
    (facts,) = parse_hosts(text, "host")
    assert isinstance(facts.gpus, Missing)


def test_a_script_that_is_logged_in_front_of_what_it_prints_is_no_hindrance() -> None:
    (facts,) = parse_hosts(f"#!/bin/bash\n# job 12\nnvidia-smi\n{_TABLE}", "host")
    assert not isinstance(facts.gpus, Missing)
    assert len(facts.gpus) == 2


def test_the_names_of_the_columns_of_dmon_are_no_comments_of_the_script_above_them() -> None:
    rows = (
        "# gpu   pwr gtemp    sm\n# Idx     W     C     %\n    0    71    31     0\n    1   410    61    99\n"
    )
    (facts,) = parse_hosts(f"#!/bin/bash\n# Example\nnvidia-smi dmon -c 1\n{rows}", "host")
    assert not isinstance(facts.gpus, Missing)
    assert len(facts.gpus) == 2
