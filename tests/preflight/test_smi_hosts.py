"""A saved file of several hosts: each is read as itself, by whatever names it in the file."""

import json

import pytest

from preflight.errors import BadInput
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts, parse_smi

FREE = """\
Mon Nov 16 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA L40S                    On  |   00000000:01:00.0 Off |                    0 |
| N/A   31C    P8             33W /  350W |       1MiB /  46068MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
BUSY = FREE.replace("      1MiB", "  40000MiB").replace(
    "|  No running processes found                                                             |",
    "|    0   N/A  N/A              4242      C   python                              39990MiB |",
)
NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)


def prefixed(name: str, text: str, mark: str = "{}: ") -> list[str]:
    return [mark.format(name) + line for line in text.splitlines()]


def used(facts: HostFacts) -> list[int] | str:
    if isinstance(facts.gpus, Missing):
        return facts.gpus.code
    return [0 if isinstance(gpu.memory, Missing) else gpu.memory.used_mib for gpu in facts.gpus]


@pytest.mark.parametrize("mark", ["{}: ", "[{}] ", "[{}] out: ", "{} | "])
def test_lines_that_carry_names_are_those_of_their_hosts(mark: str) -> None:
    one, two = prefixed("node1", FREE, mark), prefixed("node2", BUSY, mark)
    for lines in ([*one, *two], [line for pair in zip(one, two, strict=True) for line in pair]):
        found = parse_hosts("\n".join(lines), "saved")
        assert [(facts.host, used(facts)) for facts in found] == [("node1", [1]), ("node2", [40000])]


@pytest.mark.parametrize(
    "heading",
    [
        "==== {} ====",
        "### host: {} ###",
        "==> {} <==",
        "{} | CHANGED | rc=0 >>",
        "[1] 10:00:00 [SUCCESS] {}",
        "----------------\n{}\n----------------",
        "ada@{}:~$ nvidia-smi",
        "[ada@{} ~]$ nvidia-smi",
        "# {}",
        "HOST={}",
        "{}:",
        "{}",
    ],
)
def test_what_stands_under_the_name_of_a_host_is_its_own(heading: str) -> None:
    text = f"{heading.format('node1')}\n{FREE}{heading.format('node2')}\n{FREE.replace('   1MiB', ' 900MiB')}"
    found = parse_hosts(text, "saved")
    assert [(facts.host, used(facts)) for facts in found] == [("node1", [1]), ("node2", [900])]


def test_a_host_that_answered_with_an_error_is_neither_dropped_nor_merged() -> None:
    lost = "node2: Unable to determine the device handle for GPU0000:4F:00.0: Unknown Error"
    silent = "node3: ssh: connect to host node3 port 22: Connection refused"
    found = parse_hosts("\n".join([*prefixed("node1", FREE), lost, silent]), "saved")
    assert [(facts.host, used(facts)) for facts in found] == [
        ("node1", [1]),
        ("node2", "gpu-lost"),
        ("node3", "error"),
    ]
    assert "Connection refused" in str(found[2].gpus)
    ansible = f"node1 | CHANGED | rc=0 >>\n{FREE}node2 | FAILED | rc=9 >>\n{NOT_LOADED}"
    assert [used(facts) for facts in parse_hosts(ansible, "saved")] == [[1], "not-loaded"]


@pytest.mark.parametrize("heading", ["--- {} ---", "{}:", "{}", "# {}"])
def test_a_host_under_a_title_that_did_not_answer_stays(heading: str) -> None:
    silent = "ssh: connect to host gpu-02 port 22: No route to host\n"
    text = f"{heading.format('gpu-01')}\n{FREE}{heading.format('gpu-02')}\n{silent}"
    found = parse_hosts(text, "saved")
    assert [(facts.host, used(facts)) for facts in found] == [("gpu-01", [1]), ("gpu-02", "error")]


def test_json_of_ansible_is_read_host_by_host() -> None:
    lines = [json.dumps({"out.stdout_lines": text.splitlines()}, indent=4) for text in (FREE, BUSY)]
    text = "".join(f"ok: [node{at}] => {each}\n" for at, each in enumerate(lines, 1))
    assert [(facts.host, used(facts)) for facts in parse_hosts(text, "saved")] == [
        ("node1", [1]),
        ("node2", [40000]),
    ]
    adhoc = json.dumps({"rc": 0, "stdout": BUSY, "stdout_lines": BUSY.splitlines()}, indent=4)
    (facts,) = parse_hosts(f"node1 | CHANGED => {adhoc}\n", "saved")
    assert used(facts) == [40000]


def test_a_csv_with_a_column_of_hosts_is_read_host_by_host() -> None:
    text = "host, index, name, memory.used [MiB], memory.total [MiB]\n"
    text += "".join(f"node{at}, 0, NVIDIA L4, {at} MiB, 23034 MiB\n" for at in (1, 2))
    assert [used(facts) for facts in parse_hosts(text, "saved")] == [[1], [2]]


def test_a_short_list_of_each_host_is_read() -> None:
    text = "node1: GPU 0: NVIDIA L4 (UUID: GPU-1)\nnode2: GPU 0: NVIDIA L4 (UUID: GPU-2)\n"
    assert [facts.host for facts in parse_hosts(text, "saved")] == ["node1", "node2"]


@pytest.mark.parametrize(
    "text",
    [
        f"===== SMI =====\n{FREE}===== KERNEL =====\nLinux 6.8\n",
        f"==========\n== CUDA ==\n==========\n\n{FREE}",
        "\n".join(prefixed("node1", FREE)),
        "\n".join(f"{at}: {line}" for at, line in enumerate(FREE.splitlines(), 1)),
        f"ada@node1:~$ nvidia-smi\n{FREE}ada@node1:~$ uptime\n",
        f"# Setup\nnone\n# Output\n{FREE}# Step 1\nx\n# Step 2\ny\n",
        f"node1\n{FREE}done\nnode1\n",
        f"4.38.0\n{FREE}\n0.26.0\nno\n",
    ],
    ids=[
        "headings of commands",
        "banner of a container",
        "one name",
        "numbers of lines",
        "one prompt",
        "headings of a page",
        "one word",
        "versions",
    ],
)
def test_what_is_no_name_of_a_host_makes_none(text: str) -> None:
    (facts,) = parse_hosts(text, "saved")
    assert (facts.host, used(facts)) == ("saved", [1])


def test_a_reader_of_one_host_refuses_several() -> None:
    with pytest.raises(BadInput, match="several hosts: node1, node2"):
        parse_smi("\n".join([*prefixed("node1", FREE), *prefixed("node2", BUSY)]), "saved")
