"""What other programs make of the text of nvidia-smi, and files of several recordings."""

import json
import quopri
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.errors import BadInput
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.smi_reports import parse_hosts
from preflight.smi_reports.surroundings import HEAD, clean_text, find_heads
from tests.hardware import gpus_of
from tests.smi_reading import parse_smi

_FOLDER = Path(__file__).parent / "smi"
_FORMS = ("table.txt", "q.txt", "query.csv", "list.txt", "nvlink.txt", "q.xml")


def _recorded(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _whole(facts: HostFacts) -> object:
    """Return everything that was read, without how long it took."""
    return facts.driver, facts.gpus


def _lines(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(change, text.splitlines()))


_CHANGES: dict[str, Callable[[str], str]] = {
    "tabs": lambda text: text.replace(" " * 8, "\t"),
    "numbered by cat": lambda text: "\n".join(
        f"{at:6}\t{line}" for at, line in enumerate(text.splitlines(), 1)
    ),
    "times of the kernel": lambda text: "\n".join(
        f"[{at * 9:5}.{at:06}] {line}" for at, line in enumerate(text.splitlines(), 1)
    ),
    "a list of lines": _lines(lambda line: f"        {json.dumps(line)},"),
    "a JSON string": json.dumps,
    "a field of JSON": lambda text: json.dumps(text)[1:-1],
    "a page": lambda text: f"<pre><code>{text.replace('<', '&lt;').replace('>', '&gt;')}</code></pre>",
    "a prompt of conda": lambda text: f"(env) ana@n1:~/run$ nvidia-smi\n{text}\n(env) ana@n1:~/run$ ",
    "a prompt of Windows": lambda text: f"C:\\Users\\ana>nvidia-smi\n{text}\n\nC:\\Users\\ana>",
    "a log": lambda text: (
        f"epoch 1 | loss 2.5 |\n{text}\nTraceback (most recent call last):\nRuntimeError: x\n"
    ),
    "bytes as Python shows them": lambda text: repr(text.encode()),
    "a tab in front": _lines(lambda line: f"\t{line}"),
    "a mail": lambda text: quopri.encodestring(text.encode()).decode(),
    "cat -A": lambda text: f"$ nvidia-smi -q | cat -A\n{text}".replace("\t", "^I").replace("\n", "$\n"),
    "blanks of no width": lambda text: text.replace("  ", " \u200b "),
    "a diff with all lines": lambda text: (
        "--- a\n+++ b\n@@ -1,9 +1,9 @@\n-old\n" + _lines(lambda line: f" {line}")(text) + "\n+\n"
    ),
    "the same again": lambda text: f"{text}\n{text}",
}


@pytest.mark.parametrize("host", ["2xl40s-busy", "titan-rtx"])
@pytest.mark.parametrize("change", _CHANGES)
def test_a_text_that_another_program_holds_is_read_as_it_was_printed(change: str, host: str) -> None:
    for form in _FORMS:
        text = _recorded(f"{host}.{form}")
        assert _whole(parse_smi(_CHANGES[change](text), "h")) == _whole(parse_smi(text, "h")), form


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.translate(str.maketrans("|-=", "\u2502\u2500\u2550")),
        lambda text: text.replace("-----", "\u2013\u2013\u2013\u2014"),
        _lines(lambda line: line + "<br>"),
        _lines(lambda line: re.sub(r"([|_])", r"\\\1", line)),
        lambda text: text.replace("|", "\\|").replace("+-", "\\+-"),
        _lines(lambda line: re.sub(" +", "\t", line)),
    ],
    ids=["boxes", "dashes", "breaks", "escaped for Markdown", "escaped edges", "a tab for blanks"],
)
def test_a_table_in_other_characters_is_read(change: Callable[[str], str]) -> None:
    text = _recorded("2xl40s-busy.table.txt")
    assert _whole(parse_smi(change(text), "h")) == _whole(parse_smi(text, "h"))


@pytest.mark.parametrize("form", _FORMS)
def test_recordings_of_two_hosts_are_read_apart_in_every_form(form: str) -> None:
    one, two = _recorded(f"2xl40s-busy.{form}"), _recorded(f"titan-rtx.{form}")
    for first, second in ((one, two), (two, one)):
        found = parse_hosts(f"{first}\n{second}", "h")
        assert [facts.host for facts in found] == ["h-1", "h-2"]
        assert [_whole(facts) for facts in found] == [
            _whole(parse_smi(text, "h")) for text in (first, second)
        ]
        again = parse_hosts(f"{first}\n{second}\n{first}", "h")
        assert [_whole(facts) for facts in again] == [_whole(facts) for facts in found]
        with pytest.raises(BadInput, match="several hosts: h-1, h-2"):
            parse_smi(f"{first}\n{second}", "h")


def _one_line(text: str) -> str:
    return text.strip().replace("\n", "\\n")


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize(
    ("tag", "whole"),
    [("{}\t", None), ("{}:", None), ("{}.txt:", None), ("{} | CHANGED | rc=0 | (stdout) ", _one_line)],
    ids=["parallel --tag", "mpirun", "grep", "ansible -o"],
)
def test_hosts_are_named_in_front_of_what_they_print(
    form: str, tag: str, whole: Callable[[str], str] | None
) -> None:
    texts = {
        tag.format("gpu-a1"): _recorded(f"2xl40s-busy.{form}"),
        tag.format("gpu-a2"): _recorded(f"titan-rtx.{form}"),
    }
    lines = "".join(
        f"{host}{line}\n" for host, text in texts.items() for line in (whole or str)(text).splitlines()
    )
    found = parse_hosts(lines, "h")
    assert [facts.host[:6] for facts in found] == ["gpu-a1", "gpu-a2"]
    assert [_whole(facts) for facts in found] == [_whole(parse_smi(text, "h")) for text in texts.values()]


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]-n[3,5],m1 (5)", ["r1-n3", "r1-n5", "r2-n3", "r2-n5", "m1"]),
        ("n1,n[2-1]", ["n1", "n[2-1]"]),
        ("n[1-9999999],m1", ["n[1-9999999]", "m1"]),
        ("n[1-40]-[1-40]", ["n[1-40]-[1-40]"]),
        ("n[a-b]", ["n[a-b]"]),
    ],
)
def test_hosts_that_clush_folds_have_what_one_of_them_printed(names: str, hosts: list[str]) -> None:
    rule, one, two = "-" * 15, _recorded("2xl40s-busy.table.txt"), _recorded("titan-rtx.table.txt")
    found = parse_hosts(f"{rule}\n{names}\n{rule}\n{one}{rule}\nz\n{rule}\n{two}", "h")
    assert [facts.host for facts in found] == [*hosts, "z"]
    assert {_whole(facts) for facts in found[:-1]} == {_whole(parse_smi(one, "h"))}


def test_thousands_of_folded_hosts_and_screens_take_little_time() -> None:
    rule, text = "-" * 15, _recorded("2xl40s-busy.table.txt")
    start = time.process_time()
    folded = parse_hosts(f"{rule}\nn[1-1000]\n{rule}\n{text}", "h")
    parse_smi(f"{chr(27)}[H{chr(27)}[2J{chr(27)}[999;999Hy" * 2000 + text, "h")
    assert (len(folded), folded[-1].host, time.process_time() - start < 2) == (1000, "n1000", True)


@pytest.mark.parametrize("title", ["## node-{}\n\n", "=== node-{} ===\n", "host: node-{}\n"])
def test_titles_that_differ_by_a_letter_name_hosts(title: str) -> None:
    one, two = _recorded("2xl40s-busy.table.txt"), _recorded("titan-rtx.table.txt")
    found = parse_hosts(f"{title.format('a')}{one}\n{title.format('b')}{two}", "h")
    assert [facts.host for facts in found] == ["node-a", "node-b"]


@pytest.mark.parametrize("form", ["table.txt", "q.txt", "q.xml"])
def test_of_recordings_of_one_host_the_last_counts_unless_it_is_cut(form: str) -> None:
    busy = _recorded(f"2xl40s-busy.{form}")
    later = busy.replace("39120", "39119")
    assert _whole(parse_smi(f"{busy}\n{later}", "h")) == _whole(parse_smi(later, "h"))
    mark = "|   1 " if form == "table.txt" else "00000000:C1:00.0"
    cut = later[: later.index(mark) - 20]
    assert _whole(parse_smi(f"{busy}\n{cut}", "h")) == _whole(parse_smi(busy, "h"))


def test_a_q_text_whose_depth_is_lost_or_whose_start_is_cut_is_refused() -> None:
    text = _recorded("2xl40s-busy.q.txt")
    with pytest.raises(BadInput, match="blanks in front of its lines"):
        parse_smi(_lines(lambda line: re.sub(r" +", " ", line))(text), "h")
    with pytest.raises(BadInput, match="cut at its start"):
        parse_smi(re.sub(r"Minor Number .*", "", text[text.index("Compute Mode") - 8 :]), "h")


def test_a_q_text_without_its_start_numbers_gpus_as_their_device_files() -> None:
    text = _recorded("2xl40s-busy.q.txt")
    first, second = gpus_of(parse_smi(text[text.index("    Compute Mode") :], "h"))
    assert isinstance(first.name, Missing)
    assert first.compute_mode == "exclusive_process"
    assert not isinstance(first.processes, Missing)
    assert [each.pid for each in first.processes] == [4242]
    assert (second.name, second.minor) == ("NVIDIA L40S", 1)
    absent, alone = gpus_of(parse_smi(text[text.index("GPU 00000000:C1:00.0") :], "h"))
    assert "cut at its start" in str(absent.memory)
    assert alone == second


def test_a_row_that_the_end_of_a_csv_cuts_is_not_left_out() -> None:
    text = _recorded("2xl40s-busy.query.csv").rstrip()
    cut = text[: text.index("\n1, ") + len("\n1, NVIDIA L40S, GPU-87c")]
    gpus = gpus_of(parse_smi(cut, "h"))
    assert [isinstance(gpu.memory, Missing) for gpu in gpus] == [False, True]
    with pytest.raises(BadInput, match="1 values under 9 names"):
        parse_smi(text[: text.index("\n1, ") + 2], "h")


def test_a_table_that_is_cut_at_its_start_keeps_the_numbers_of_its_gpus() -> None:
    text = _recorded("2xl40s-busy.table.txt")
    facts = parse_smi(text[text.index("|   1 ") :], "h")
    whole = gpus_of(parse_smi(text, "h"))
    first, second = gpus_of(facts)
    assert isinstance(facts.driver, Missing)
    assert isinstance(first.name, Missing)
    assert (second.index, second.memory, second.processes) == (1, whole[1].memory, whole[1].processes)


@pytest.mark.parametrize(
    "text",
    [
        "pid, process_name, used_gpu_memory [MiB]\n771, python, 9000 MiB\n",
        "gpu_uuid, pid, used_memory [MiB]\nGPU-1111-22, 771, 9000 MiB\nGPU-1111-22, 772, 10 MiB\n",
        "771, python, 9000 MiB\n",
    ],
)
def test_a_list_of_processes_counts_no_gpu_and_is_said(text: str) -> None:
    gpus = parse_smi(text, "h").gpus
    assert isinstance(gpus, Missing)
    assert "pid 771" in gpus.reason
    assert gpus.code == "error"


def test_what_nvidia_smi_says_at_its_end_of_a_lost_gpu_is_understood() -> None:
    driver = parse_smi("Failed to properly shut down NVML: GPU is lost\n", "h").driver
    assert isinstance(driver, Missing)
    assert driver.code == "gpu-lost"


def test_a_lost_gpu_is_named_above_an_empty_line_too() -> None:
    lost = "Unable to determine the device handle for GPU2: 0000:52:00.0: Unknown Error\n"
    for between in ("", "\n\n"):
        text = (lost + between + _recorded("2xl40s-busy.table.txt")).replace(
            "\n", "\n\n" if between else "\n"
        )
        assert len(gpus_of(parse_smi(text, "h"))) == 3


@pytest.mark.parametrize("key", ["log", "message"])
def test_lines_that_docker_or_a_logger_keeps_as_json_are_lines(key: str) -> None:
    table = _recorded("2xl40s-busy.table.txt")
    lines = [json.dumps({key: line + "\n", "stream": "stdout"}) for line in table.split("\n")]
    assert _whole(parse_smi("\n".join(lines), "h")) == _whole(parse_smi(table, "h"))


def test_numbers_of_tasks_are_at_the_right() -> None:
    table = _recorded("titan-rtx.table.txt")
    text = "".join(f"{task:2}: {line}\n" for task in (0, 11) for line in table.splitlines())
    assert [facts.host for facts in parse_hosts(text, "h")] == ["0", "11"]


def test_a_list_of_retired_pages_counts_no_gpu() -> None:
    with pytest.raises(BadInput, match="lists retired pages"):
        parse_smi("gpu_uuid, retired_pages.address, retired_pages.cause\nGPU-1, 0x1, Double Bit ECC\n", "h")


def test_commands_in_titles_of_markdown_are_apart() -> None:
    """Lines of the table are as long as the longest, and no ends of those of -q."""
    table, wide = (
        _recorded("2xl40s-busy.table.txt"),
        _recorded("2xl40s-busy.q.txt").partition("    MIG Mode")[0],
    )
    text = f"### `nvidia-smi`\n```\n{table}```\n### `nvidia-smi -q | head`\n```\n{wide}```\n"
    assert parse_smi(text, "h").gpus == parse_smi(table, "h").gpus


@pytest.mark.parametrize(
    "text",
    [
        "# pid, process_name, used_gpu_memory [MiB]\n# 771, python, 9000 MiB\n",
        "Output:\n> pid, process_name, used_gpu_memory [MiB]\n> 771, python, 9000 MiB\n",
    ],
)
def test_a_list_of_processes_in_comments_is_one(text: str) -> None:
    assert "pid 771" in str(parse_smi(text, "h").gpus)


def test_a_csv_in_columns_fences_or_a_web_page_is_read() -> None:
    text = _recorded("2xl40s-busy.query.csv")
    fenced = f"Ada 10:02\n```{text.rstrip()}```\nBob 10:03\n"
    assert _whole(parse_smi(fenced, "h")) == _whole(parse_smi(text, "h"))
    rows = [line.split(", ") for line in text.splitlines()]
    lines = ["".join(f"{value:42}" for value in row).rstrip() for row in rows]
    cells = ["".join(f"<td align=right>{value}</td>\n" for value in row) for row in rows]
    for other in (
        "\n".join(lines),
        text.replace("\n", "\n\n\n"),
        f"<table><tr>{'</tr><tr>'.join(cells)}</tr></table>",
    ):
        assert _whole(parse_smi(f"{other}\n", "h")) == _whole(parse_smi(text, "h"))


def test_rows_without_names_are_of_gpus_that_they_number() -> None:
    rows = [f"{at}, NVIDIA R{at}00 of tomorrow, 0 MiB, 288000 MiB\n" for at in range(2)]
    assert [gpu.name for gpu in gpus_of(parse_smi("".join(rows), "h"))] == [
        "NVIDIA R000 of tomorrow",
        "NVIDIA R100 of tomorrow",
    ]
    with pytest.raises(BadInput):
        parse_smi("".join(reversed(rows)), "h")


def test_a_csv_in_comments_below_its_command_is_read() -> None:
    command = "nvidia-smi --query-gpu=index,name,memory.used,memory.total --format=csv"
    rows = "# index, name, memory.used [MiB], memory.total [MiB]\n# 0, Tesla T4, 7234 MiB, 15360 MiB\n"
    (gpu,) = gpus_of(parse_smi(f"{command}\n\n# Output:\n{rows}", "h"))
    assert gpu.name == "Tesla T4"


@pytest.mark.parametrize("mark", ["", "> ", "node-1: ", "[2026-11-20 09:14:02] ", "\t", "  12 | "])
def test_first_lines_are_found_where_the_whole_pattern_finds_them(mark: str) -> None:
    for path in sorted(_FOLDER.iterdir()):
        lines = clean_text(path.read_text("utf-8")).split("\n")
        for text in ("\n".join(mark + line for line in lines), "\n".join(reversed(lines))):
            assert [found.span(1) for found in find_heads(text)] == [
                found.span(1) for found in HEAD.finditer(text)
            ]
