"""Blocks of a page and prompts: which of them are commands, and which are left out."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Request
from launcher.errors import CommandRefused

_LAUNCH = "```bash\ntorchrun --nproc_per_node=2 a.py --lr 0.1\n```\n"


@pytest.mark.parametrize(
    "block",
    [
        "```bash\nls -l out\ntotal 2\n-rw-r--r-- 1 ana ana 14 Oct 21 09:50 latest\n```\n",
        "```\ndataset:\n   buf_path: /data\n```\n",
        "  ```shell\n  [2025-05-25 17:01:37] (step=1) x: 4\n  [2025-05-25 17:01:40] (step=2) x: 3\n  ```\n",
        "```bash\n--images /a:/b \\\n--labels /c\n```\n",
        "```\nkwargs = {'n': int(os.environ[\"N\"])}\n```\n",
        "```\ndata\n\u251c\u2500\u2500 train\n\u2514\u2500\u2500 val\n```\n",
        "```\n...\n```\n",
        "```yaml\nlr: 0.1\nsizes:\n  - 1\n```\n",
        "```raw\nGLEORKEN VINGHARD III:\nWhell's the couse\n```\n",
        "```eval_rst\n+----+\n| GPU (fast) |\n+----+\n```\n",
    ],
)
def test_a_block_of_a_page_that_nobody_types_is_no_command(block: str) -> None:
    parsed = parse_line(f"Install it first.\n\n{block}\nThen train:\n\n{_LAUNCH}")
    assert (parsed.program, parsed.args, parsed.request.per_node) == ("a.py", ("--lr", "0.1"), 2)
    assert not parsed.unknown


@pytest.mark.parametrize(
    ("block", "launch", "shown"),
    [
        ("ARGS=(\n  --lr 0.1\n  --bs 4\n)", 'torchrun a.py "${ARGS[@]}"', "--lr 0.1 --bs 4"),
        ('OPTS="--lr 1\n--bs 2"', "torchrun a.py $OPTS", "--lr 1 --bs 2"),
        ('export A="don\'t"', "torchrun a.py $A", "don't"),
        ("A='a # b'", 'torchrun a.py "$A"', "a # b"),
    ],
)
def test_a_block_that_sets_what_a_launch_has_is_read(block: str, launch: str, shown: str) -> None:
    parsed = parse_line(f"Set it:\n\n```bash\n{block}\n```\n\nThen train:\n\n```bash\n{launch}\n```\n")
    assert (" ".join(parsed.args), parsed.unknown) == (shown, ())


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        ("export A=1\nNote: the first card", "A=1"),
        ("$ cd src\n$ ls -l\n-rw-r--r-- 1 ana ana 14 a.py", "cd src"),
        ("cd src\n\u251c\u2500\u2500 a.py", "cd src"),
        ("export A=1\n| column |", ""),
        ("NUM = 4", ""),
    ],
)
def test_what_prepares_a_launch_is_not_left_out_with_what_stands_beside_it(block: str, kept: str) -> None:
    text = f"Prepare it:\n\n```bash\n{block}\n```\n\nThen train:\n\n{_LAUNCH}"
    with pytest.raises(CommandRefused):
        parse_line(text)
    if kept:
        parsed = parse_line(text, {}, None, 2)
        assert kept in (f"cd {parsed.directory}", *(f"{name}={value}" for name, value in parsed.env.items()))


def test_a_launch_behind_what_help_prints_is_read() -> None:
    page = "First:\n\n```\n{}\nusage: a.py [-h]\n\noptions:\n  --lr LR\n\n$ torchrun b.py --lr 1\n```\n"
    with pytest.raises(CommandRefused, match="2 commands"):
        parse_line(page.format("$ torchrun a.py"))
    assert parse_line(page.format("")).program == "b.py"


def test_dots_for_lines_that_are_left_out_are_said_and_open_among_arguments() -> None:
    inside = 'First:\n\n```\nA=(\n  --lr 1\n  ...\n)\ntorchrun a.py "${A[@]}"\n```\n'
    assert [one.message for one in parse_line(inside).unknown] == ["the line has ..., which has no value"]
    quoted = parse_line('First:\n\n```\ntorchrun a.py --prompt "one\n...\ntwo"\n```\n')
    assert quoted.args == ("--prompt", "one\n...\ntwo")
    alone = parse_line("First:\n\n```\ncd src\n.....\ntorchrun a.py\n```\n")
    assert (alone.directory, alone.dropped) == ("src", (".....: the text leaves lines out in its place",))
    with pytest.raises(CommandRefused, match=r"\.\.\.\., which has no value"):
        parse_line("python -m torch.distributed.launch ....")


def test_keys_that_a_manifest_takes_from_another_are_no_text_in_place() -> None:
    settings = "```yaml\nbase: &b\n  lr: 1\nx:\n  <<: *b\n```\n"
    assert parse_line(f"The settings:\n\n{settings}\nThen train:\n\n{_LAUNCH}").program == "a.py"


def test_a_block_that_prepares_is_read_though_its_comment_has_an_apostrophe() -> None:
    text = f"First:\n\n```bash\n# the paper's code\ncd src\n```\n\nThen train:\n\n{_LAUNCH}"
    assert parse_line(text).directory == "src"


def test_what_help_prints_below_a_launch_is_not_typed() -> None:
    text = "Start it:\n\n```bash\npython a.py --lr 1\n\noptions:\n  --lr LR, -l LR\n```\n"
    assert (parse_line(text).program, parse_line(text).args) == ("a.py", ("--lr", "1"))


def test_a_page_without_a_launch_has_the_commands_of_its_blocks_alone() -> None:
    text = "Run [`a.py`](a.py) so:\n\n```bash\ncd x\n```\n\nThen:\n\n```bash\nsbatch run.sh\n```\n"
    with pytest.raises(CommandRefused, match="sbatch submits a script"):
        parse_line(text)


@pytest.mark.parametrize(
    "text",
    [
        "1. Then start it with\n<pre><code>$ torchrun --nproc_per_node=4 a.py</code></pre>\n",
        "Start it:\n<pre>\ntorchrun --nproc_per_node=4 a.py\n</pre>\n[options]:\n\n```\nusage: a.py\n```\n",
    ],
)
def test_code_of_html_is_read_behind_its_prompts_and_beside_fences(text: str) -> None:
    assert parse_line(text).request == Request(per_node=4)


def test_code_of_html_that_only_shows_is_left_out_beside_fences_and_without() -> None:
    launch = '<pre><code class="x">torchrun a.py --note &quot;b c&quot;</code></pre>'
    said = "It says:\n<pre>\nWhat is it?\n</pre>\nIn <code>a.py</code>.\n"
    page = f"Start it:\n<pre>\nexport A=1\n</pre>\nThen:\n{launch}\n{said}"
    for text in (page, f"{page}\n```json\n{{}}\n```\n"):
        parsed = parse_line(text)
        assert (parsed.program, parsed.args, parsed.env) == ("a.py", ("--note", "b c"), {"A": "1"})


@pytest.mark.parametrize("prompt", ["(env) (base) f:\\x\\sd.git>", "node0>> ", "gpu-1> "])
def test_prompts_of_consoles_and_of_pages_are_left_out(prompt: str) -> None:
    parsed = parse_line(f"{prompt}python a.py --rank 0")
    assert (parsed.program, parsed.args, parsed.dropped) == ("a.py", ("--rank", "0"), ())


def test_hosts_with_slots_above_a_tab_are_no_target_of_make() -> None:
    text = "mpirun -np 4 --host 10.0.0.1:2,10.0.0.2:2 \\\n\t-v -x A=1 \\\n\tpython a.py\n"
    assert (parse_line(text).program, parse_line(text).request.total, parse_line(text).env) == (
        "a.py",
        4,
        {"A": "1"},
    )


@pytest.mark.parametrize("line", ["ccc_mprun -n 4 python a.py", "hf jobs uv run --flavor a10g python a.py"])
def test_a_step_of_another_scheduler_is_refused_with_its_command(line: str) -> None:
    with pytest.raises(CommandRefused, match="scheduler of its own") as refused:
        parse_line(line)
    assert "gpulaunch run --hosts A,B -- python a.py" in refused.value.fix
