"""Pages, notebooks and terminals that hold a command: what is read of them, and what is left out."""

import json

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Environment, ParsedCommand, Request
from launcher.errors import CommandRefused

_RST = """\
Start it so:

.. code-block:: bash
   :linenos:

   #BSUB -gpu "num=4"
   cd src

   torchrun --nproc_per_node=2 a.py

and wait.
"""
_OTHER_SCRIPT = """\
\u5728 node0\uff08master\uff09\uff1a
torchrun --nnodes=2 --node_rank=0 a.py
2) \u5728 node1\uff1a
torchrun --nnodes=2 --node_rank=1 a.py
"""
_MARKED = "**\u5168\u90e8 GPU\uff1a**\n```bash\ncd src\ntorchrun a.py\n```\n"
_CHANGE = """\
```diff
- torchrun a.py \\
-     --layers 4
+ torchrun --nproc_per_node=2 b.py \\
+     --layers 8
```
"""
_EDITOR = """\
Put this into launch.json:

```json
{"configurations": [{
  // of torch
  "module": "torch.distributed.run",
  "envFile": "${workspaceFolder}/.env",
  "args": ["--nproc_per_node=2", "${workspaceFolder}/a.py", "--model", "./b",
    ...
  ]
}]}
```
"""


def test_a_block_of_restructuredtext_is_the_command() -> None:
    parsed = parse_line(_RST)
    assert (parsed.program, parsed.directory, parsed.request.per_node) == ("a.py", "src", 2)
    assert [sentence.partition(":")[0] for sentence in parsed.dropped] == ['#BSUB -gpu "num=4"']


@pytest.mark.parametrize(
    ("text", "request_of_it"),
    [(_OTHER_SCRIPT, Request(nodes=2, node_rank=0)), (_MARKED, Request()), (_CHANGE, Request(per_node=2))],
)
def test_sentences_and_lines_that_a_change_takes_away_are_no_commands(
    text: str, request_of_it: Request
) -> None:
    assert parse_line(text).request == request_of_it


def test_a_change_leaves_the_words_of_its_new_command() -> None:
    parsed = parse_line(_CHANGE)
    assert (parsed.program, parsed.args) == ("b.py", ("--layers", "8"))


def test_a_text_in_quotes_keeps_its_lines_in_another_script() -> None:
    text = 'echo "\u8bad\u7ec3\n\u5f00\u59cb"\ntorchrun a.py --name "x\n\u5f00\u59cb"\n'
    assert parse_line(text).args == ("--name", "x\n\u5f00\u59cb")


@pytest.mark.parametrize(
    "text",
    [
        "- `pkg.main` \u2014 a model:\n  `A=1 uv run torchrun --nproc_per_node=2 -m pkg.main`\n  (or not).\n",
        "Run `A=1 torchrun --nproc_per_node=2 -m pkg.main` on a host.",
    ],
)
def test_a_command_in_a_sentence_is_read(text: str) -> None:
    parsed = parse_line(text)
    assert (parsed.program, parsed.request.per_node, parsed.env) == ("pkg.main", 2, {"A": "1"})


def test_a_command_in_backticks_stays_a_substitution() -> None:
    assert parse_line("Xy=`basename a/b.py`\ntorchrun $Xy").program == "b.py"


def test_a_configuration_of_an_editor_in_a_page_is_read() -> None:
    parsed = parse_line(_EDITOR)
    assert (parsed.program, parsed.args) == ("a.py", ("--model", "./b", "..."))
    assert [one.message for one in parsed.unknown] == ["the line has ..., which has no value"]
    assert parsed.dropped[0].startswith("envFile .env: its variables are not read")


def _notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]})


def test_the_cells_of_a_notebook_are_one_text() -> None:
    parsed = parse_line(
        _notebook(
            "import torch\nx = 1",
            "import os\nos.environ['KEY'] = '1'",
            "%%bash\ncd src\ntorchrun --nproc_per_node=2 \\\n  a.py",
        )
    )
    assert (parsed.program, parsed.directory, parsed.env) == ("a.py", "src", {"KEY": "1"})
    assert parsed.request.per_node == 2


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("!python a.py", "!torchrun b.py"), "the text has 2 commands, 1: python a.py; 2: torchrun b.py"),
        (("import torch",), "the notebook has no cell that starts a command (!torchrun, %%bash)"),
    ],
)
def test_a_notebook_without_one_command_is_refused(cells: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line(_notebook(*cells))
    assert caught.value.message == message


def test_a_docstring_has_its_first_launch_in_the_error() -> None:
    text = '"""A test.\n\n    A=1 \\\\\n      uv run torchrun a.py\n\n    torchrun b.py\n"""\nimport os\n'
    with pytest.raises(CommandRefused) as caught:
        parse_line(text)
    assert caught.value.fix.endswith("-- A=1 uv run torchrun a.py")


def _typed(text: str) -> ParsedCommand:
    return parse_line(text, {"HOME": "/home/ana", "PWD": "/w"})


@pytest.mark.parametrize(
    "text",
    [
        (
            'tmux new -d -s t -c /data\ntmux send-keys -t t "export A=1" C-m\n'
            'tmux send-keys -t t "conda activate x && torchrun a.py" Enter\ntmux attach -t t'
        ),
        (
            "tmux kill-session -t t\ntmux new-session -d -s t\ntmux send-keys -t t C-c\n"
            'tmux send-keys -t t "cd /data; conda activate x; export A=1" Enter\n'
            'tmux send-keys -t t "torchrun a.py"\ntmux send-keys -t t Enter'
        ),
        (
            "screen -dmS t\nscreen -S t -X stuff 'cd /data\\n'\nscreen -S t -X stuff $'export A=1\\n'\n"
            'screen -S t -p 0 -X stuff "conda activate x; torchrun a.py^M"\nscreen -r t'
        ),
    ],
)
def test_what_is_typed_into_a_terminal_is_one_text(text: str) -> None:
    parsed = _typed(text)
    assert (parsed.program, parsed.directory, parsed.env) == ("a.py", "/data", {"A": "1"})
    assert parsed.environment == Environment("conda", "x")


def test_a_terminal_starts_its_command_in_its_directory() -> None:
    assert _typed('tmux new-session -d -s t -c /data "torchrun a.py"').directory == "/data"


def test_several_sessions_are_several_launches() -> None:
    text = 'for i in 1 2; do\ntmux new -d -s r$i\ntmux send-keys -t r$i "torchrun a.py --seed $i" Enter\ndone'
    with pytest.raises(CommandRefused, match=r"2 commands, torchrun a[.]py with 1: --seed 1; 2: --seed 2"):
        _typed(text)


@pytest.mark.parametrize(
    "text",
    [
        'flock -n /tmp/lock -c "torchrun a.py --lr 1"',
        "flock -w 10 /tmp/lock torchrun a.py --lr 1",
        "(\nflock -n 9 || exit 1\ntorchrun a.py --lr 1\n) 9>/tmp/lock",
    ],
)
def test_a_lock_around_a_command_is_left_out(text: str) -> None:
    parsed = _typed(text)
    assert (parsed.program, parsed.args) == ("a.py", ("--lr", "1"))
    assert any(sentence.startswith("flock:") for sentence in parsed.dropped)


def test_what_only_shows_the_output_is_left_out() -> None:
    parsed = _typed('torchrun a.py 2>&1 | grep -E "loss|Error" | sed "s/^/x /"')
    assert [one.partition(":")[0] for one in parsed.dropped] == ["2>&1", "| grep", "| sed"]


def test_variables_that_a_file_or_a_program_gives_have_no_value() -> None:
    parsed = _typed(
        "read -r A B < <(python -c 'print(1)')\nmapfile -t H < hosts\n"
        "torchrun --nproc_per_node=$B a.py $A ${H[0]}"
    )
    assert [one.message for one in parsed.unknown] == [
        "the line has $A (read from a terminal or a file), ${H[0]}, which have no value"
    ]
    assert parsed.request == Request()


def test_a_program_of_this_machine_is_no_variable_of_the_ranks() -> None:
    parsed = _typed("conda deactivate\nexport CXX=$(which g++)\ntorchrun a.py")
    assert (parsed.env, parsed.unknown) == ({}, ())
    assert any(
        sentence.startswith("export CXX: it names a program of this machine") for sentence in parsed.dropped
    )


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("fit submit --nodes 2 -- torchrun a.py", "fit: it has a launch among its words", "-- torchrun a.py"),
        ("az ml job create --file job.yml", "az: it hands the command to a scheduler", "--hosts"),
        ("gcloud ai custom-jobs create --config=a.yaml", "gcloud: it hands the command", "--hosts"),
    ],
)
def test_what_hands_a_launch_to_others_is_refused(text: str, message: str, fix: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        _typed(text)
    assert caught.value.message.startswith(message)
    assert caught.value.fix.endswith(fix)


def test_what_copies_from_a_cloud_comes_before_the_launch() -> None:
    parsed = _typed("gcloud storage cp gs://b/a.py .\naz storage blob download -n x\ntorchrun a.py")
    assert [one.partition(":")[0] for one in parsed.dropped] == ["gcloud storage", "az storage"]


@pytest.mark.parametrize(
    ("variable", "count"), [("NGPU ?= 2\n", "$(NGPU)"), ("", "$(or $(NGPU),2)"), ("NGPU := 2\n", "$(NGPU)")]
)
def test_a_makefile_of_one_target_fills_in_its_variables(variable: str, count: str) -> None:
    text = f"{variable}train:\n\ttorchrun --nproc_per_node={count} a.py $(shell echo 1)\n"
    assert (parse_line(text).request.per_node, parse_line(text).args) == (2, ("1",))


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("ifeq ($(MODE),big)", 8),
        ('ifeq "$(MODE)" "small"', 2),
        ("ifneq ($(MODE), big)", 2),
        ("ifeq ($(MODE),small)\nN = 4\nelse ifneq ($(MODE),small)", 8),
    ],
)
def test_a_makefile_compares_its_variables(condition: str, count: int) -> None:
    variables = f"MODE ?= big\n{condition}\nN = 8\nelse\nN = 2\nendif\n"
    assert parse_line(f"{variables}train:\n\ttorchrun --nproc_per_node=$(N) a.py\n").request.per_node == count


def test_a_shell_inside_knows_the_functions_that_are_exported_alone() -> None:
    functions = "go() { torchrun --nproc_per_node 2 a.py --lr $1; }\nother() { torchrun b.py; }"
    parsed = parse_line(f"{functions}\nexport -f go\nbash -c 'go 3'")
    assert (parsed.program, parsed.request.per_node, parsed.args) == ("a.py", 2, ("--lr", "3"))
    assert parse_line(f"{functions}\nexport -f go\nbash -c other").launcher == "opaque"


@pytest.mark.parametrize(
    "order", ["--master_port 1 --rdzv_endpoint h:2", "--rdzv_endpoint h:2 --master_port=1"]
)
def test_a_rendezvous_endpoint_counts_beside_a_port(order: str) -> None:
    assert parse_line(f"torchrun {order} a.py").request == Request(main_address="h", main_port=2)


def test_programs_that_start_torchrun_are_the_launch_of_a_page() -> None:
    text = "Tune it:\n\n(with LoRA)\n```shell\nmodelscope download --model x\n"
    text += "NPROC_PER_NODE=2 swift sft --model x\n```\n"
    parsed = parse_line(text)
    assert (parsed.program, parsed.request) == ("swift", Request(per_node=2))


@pytest.mark.parametrize("option", ["--entrypoint python3", "--entrypoint=python3"])
def test_a_container_with_an_entrypoint_is_refused_with_the_whole_command(option: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line(f'docker run --rm {option} -v /a:/b "$IMAGE" a.py --lr 1')
    assert caught.value.fix.endswith("-- python3 a.py --lr 1")


def test_a_launch_in_a_comment_of_a_program_is_in_the_error() -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line("# Command: torchrun --nproc_per_node=2  a.py\nimport os\n")
    assert caught.value.fix.endswith("-- torchrun --nproc_per_node=2 a.py")


def test_a_quotation_is_read_without_its_marks() -> None:
    text = "> [!note]- Pretrain\n> ```bash\n> N=2\n>\n"
    text += "> torchrun --nproc_per_node $N a.py \\\n>   --tp 8\n> ```\n"
    parsed = parse_line(text)
    assert (parsed.request, parsed.args) == (Request(per_node=2), ("--tp", "8"))


def test_the_command_that_submits_a_shown_batch_script_is_no_launch() -> None:
    text = "Prepare a job script:\n\n```\n#!/bin/bash\n#SBATCH -N 2\nsrun torchrun a.py\n```\n"
    text += "\n```\nsbatch job.sh\n```\n"
    assert any(one.startswith("sbatch job.sh: gpulaunch starts") for one in parse_line(text).dropped)
    with pytest.raises(CommandRefused, match="2 commands"):
        parse_line("torchrun a.py\nsbatch job.sh")


def test_logins_that_a_runner_starts_are_no_launch() -> None:
    text = (
        "poetry run huggingface-cli login\nuv run wandb login\nuv run pip install x\npoetry run torchrun a.py"
    )
    assert parse_line(text).program == "a.py"
    with pytest.raises(CommandRefused, match="2 commands"):
        parse_line("uv run train-it\npoetry run torchrun a.py")


def test_a_container_of_a_cluster_is_refused_with_what_starts_in_it() -> None:
    text = 'podman-hpc run --rm --gpu --nccl -e HOME -v "/a":"/b" docker.io/x/y:1 /bin/bash /w/inner.sh'
    with pytest.raises(CommandRefused) as caught:
        parse_line(text)
    assert caught.value.fix.endswith("-- /bin/bash /w/inner.sh")


def test_long_lines_for_a_scheduler_are_shown_as_cut() -> None:
    (said,) = (one for one in parse_line(f"#PBS -v I={'x' * 80}\ntorchrun a.py").dropped if "PBS" in one)
    assert "x...: for its scheduler" in said


def test_a_text_of_a_shell_that_starts_a_launcher_is_not_handed_on_unread() -> None:
    with pytest.raises(CommandRefused, match="a shell loop or condition"):
        parse_line("srun bash -lc 'if [ $SLURM_NODEID -eq 0 ]; then torchrun a.py; else torchrun b.py; fi'")
    assert parse_line("bash -c 'for i in $X; do ./a $i; done'").launcher == "opaque"


def test_a_virtual_environment_may_be_named_behind_its_script() -> None:
    found = parse_line(". train_env/bin/activate train_env\npython a.py").environment
    assert found is not None
    assert (found.tool, found.path) == ("venv", "train_env")


def test_the_home_of_another_user_has_no_value() -> None:
    parsed = parse_line("export LD_LIBRARY_PATH=~cat/lib:/x\npython a.py", {"HOME": "/h"})
    assert [one.message for one in parsed.unknown] == [
        "the variable LD_LIBRARY_PATH has ~cat, which has no value"
    ]


def test_the_container_that_sbatch_starts_is_named() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --container-image=x/y:1\ntorchrun a.py"
    assert any(
        one.startswith("#SBATCH --container-image=x/y:1: gpulaunch starts no")
        for one in parse_line(text).dropped
    )


def test_a_launch_in_a_terminal_is_chosen_among_commands_of_a_cloud() -> None:
    text = (
        "tmux new-session -d -s t 'cd /w && python a.py'\ntmux attach -t t\ngcloud compute instances stop x"
    )
    assert parse_line(text).program == "a.py"
    with pytest.raises(CommandRefused, match="2 commands") as caught:
        parse_line("sudo -u x tmux send-keys -t t 'python a.py' Enter\nsome-tool -x")
    assert caught.value.fix.startswith("choose one: --launch 1")


def test_what_takes_the_place_of_a_container_keeps_its_variables() -> None:
    """`-e A=1` of docker goes in front of the launch that is named."""
    for text, launch in (
        ("docker run -e A=1 --env=B='x y' img torchrun t.py", "A=1 B='x y' torchrun t.py"),
        ("apptainer exec -e --env A=1,B=2 x.sif python t.py", "A=1 B=2 python t.py"),
        ("docker run -e A=1,B=2 -e HOME img python t.py -e C=3", "A=1,B=2 python t.py -e C=3"),
        ("ovhai job run -g 1 img -- bash -c 'torchrun t.py'", "'torchrun t.py'"),
        ("python m.py --gpus 8 -- source x.sh \\&\\& accelerate launch t.py", "accelerate launch t.py"),
    ):
        with pytest.raises(CommandRefused) as refusal:
            parse_line(text)
        assert refusal.value.fix is not None
        assert refusal.value.fix.endswith(f"-- {launch}")


def test_a_path_that_extends_itself_without_export_is_named() -> None:
    """`PYTHONPATH=$PYTHONPATH:src` alone reads only itself: no rank gets it."""
    said = parse_line("PYTHONPATH=$PYTHONPATH:src\ntorchrun a.py").dropped
    assert said == ("PYTHONPATH: set for the text alone and not exported, no rank gets it",)
    assert not parse_line("PYTHONPATH=src\ntorchrun a.py $PYTHONPATH").dropped
