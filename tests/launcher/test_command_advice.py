"""What is said of texts that are read or refused: the launch to type, and arguments that ranks share."""

import json
import time
from contextlib import suppress

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.errors import CommandRefused

IMAGE = """\
FROM base
RUN apt-get install -y python3 python3-dev && mv $MPI/bin/mpirun $MPI/bin/mpirun.real
ENV A=1 \\
    RUNNER=/usr/bin/torchrun
"""
BATCH = (
    "@echo off\ncall venv\\Scripts\\activate\naccelerate launch --num_processes 1 a.py ^\n  --lr 1\npause\n"
)
SETTINGS = """\
model:
  name: a
# `torchrun --nproc_per_node=8 a.py ...` and each rank reads a part
optim:
  lr: 1
"""
BY_ARGUMENTS = """\
mode=$1
rsync -a code out
if [[ $mode == cluster ]]; then
  srun torchrun a.py
elif [[ $mode == local ]]; then
  torchrun a.py
fi
"""


def refused(text: str) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        parse_line(text)
    return caught.value


def test_what_builds_an_image_is_no_launch_of_it() -> None:
    assert refused(IMAGE).fix == "paste the command that trains, from torchrun, accelerate or python on"
    assert refused(IMAGE + "CMD torchrun a.py --lr 1\n").fix.endswith("-- torchrun a.py --lr 1")


def test_a_launch_that_is_shown_has_the_lines_that_continue_it() -> None:
    assert refused(BATCH).fix.endswith("-- accelerate launch --num_processes 1 a.py --lr 1")


def test_a_launch_in_a_comment_ends_with_its_quote() -> None:
    assert refused(SETTINGS).fix.endswith("-- torchrun --nproc_per_node=8 a.py ...")
    assert refused(SETTINGS.replace("`", "")).fix.endswith("a.py ... and each rank reads a part")


def test_a_text_without_the_arguments_that_choose_its_launch_says_so() -> None:
    error = refused(BY_ARGUMENTS)
    assert error.message == "the text starts its launch by its arguments, as $1, and has none"
    assert "bash SCRIPT ARGUMENTS" in error.fix
    assert refused("rsync -a code out").message == "rsync -a starts no training"
    shown = "pip install x\nkill $(ps | awk '{print $1}')\ncat <<EOF\ntorchrun a.py\nEOF\n"
    assert refused(shown).message == "pip install starts no training"


def test_variables_in_front_of_a_launch_that_is_handed_on_stay() -> None:
    assert refused("mytool -- env A=1 B=2 torchrun a.py").fix.endswith("-- A=1 B=2 torchrun a.py")


@pytest.mark.parametrize("rank", ["--local_rank=0", "--local-rank 1"])
def test_a_number_that_every_rank_gets_is_named(rank: str) -> None:
    said = f"{rank}: every rank of a.py gets it, and none its own number: leave it out"
    assert parse_line(f"torchrun a.py {rank}").remarks == (said,)
    assert parse_line(f"deepspeed a.py --lr 1 {rank}").remarks == (said,)
    assert parse_line("torchrun a.py --local_rank=-1 --local-rank $LOCAL_RANK").remarks == ()
    assert parse_line(f"torchrun --nproc_per_node 1 a.py {rank}").remarks == ()


@pytest.mark.parametrize("before", ["torchrun a.py ", "torchrun a.py \\\n  "])
def test_a_log_that_replaces_a_file_is_left_out(before: str) -> None:
    parsed = parse_line(f"{before}>| out.log")
    assert parsed.args == ()
    assert [said.partition(":")[0] for said in parsed.dropped] == [">| out.log"]


def test_prompts_that_name_a_host_alone_are_left_out() -> None:
    parsed = parse_line("[gpu-ln002]$ torchrun a.py\nstep 1\n[gpu-ln002]$ exit\n")
    assert (parsed.launcher, parsed.program) == ("torchrun", "a.py")
    assert parse_line("[ana@gpu-ln002]# torchrun a.py").program == "a.py"


def test_a_comment_behind_a_sign_ends_the_command_for_a_shell() -> None:
    parsed = parse_line("torchrun --nnodes 1 \\  # of the job\n  a.py --lr 1")
    assert parsed.args == ("--lr", "1")
    assert [said for said in parsed.dropped if said.startswith("\\: a blank behind it")]


def test_calls_and_texts_in_a_cell_of_python_are_no_commands() -> None:
    text = 'TEXT = """\ntorchrun b.py \\\n  --lr 1\n"""\n'
    cells = [
        "class A:\n    def go(self):\n        super().go()\n",
        text,
        "x = f(1)\n!torchrun a.py\nsuper().go()",
    ]
    tree = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    assert parse_line(json.dumps(tree)).program == "a.py"


@pytest.mark.parametrize("own", ["$$", "$RANDOM"])
def test_values_that_a_shell_makes_itself_are_not_to_be_exported(own: str) -> None:
    (missing,) = parse_line(f"torchrun a.py --cache /tmp/{own}").unknown
    assert missing.fix == "write a value for it"
    (missing,) = parse_line("torchrun a.py --cache /tmp/$RANDOM_DIR").unknown
    assert missing.fix == "export it, or write the value"


def test_a_cell_that_is_a_command_is_one_without_its_mark() -> None:
    cells = [
        {"cell_type": "code", "source": cell} for cell in ("!pip install x", "torchrun a.py \\\n  --lr 1")
    ]
    assert parse_line(json.dumps({"cells": cells})).args == ("--lr", "1")


@pytest.mark.parametrize("setup", ['python <<< "import torch"', "python3 - <<< 'print(1)'"])
def test_a_program_in_a_text_for_python_comes_before_the_launch(setup: str) -> None:
    assert parse_line(f"{setup}\ntorchrun a.py --lr 1").args == ("--lr", "1")


def test_a_launch_has_no_text_for_its_input() -> None:
    assert refused('torchrun a.py <<< "yes"').message == "the text gives torchrun its input in place (<<)"


def test_names_in_three_angles_are_left_to_the_reader() -> None:
    (missing,) = parse_line("IMAGE=<<<IMAGE NAME>>>\ntorchrun a.py --image $IMAGE --n 1").unknown
    assert missing.message == "the line has <<<IMAGE NAME>>>, which has no value"


def test_a_change_that_git_wrote_is_the_launch_that_it_leaves() -> None:
    head = "From 1a2b3c4d Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Use 8 GPUs\n\n---\n run.sh | 2 +-\n\n"
    other = "diff --git a/a.py b/a.py\nindex 1..2 100644\n@@ -1 +1 @@\n-def f(x):\n+def f(y):\n"
    change = "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n"
    launches = "-torchrun --nproc_per_node 4 a.py\n+torchrun --nproc_per_node 8 a.py\n"
    parsed = parse_line(f"{head}{other}{change}{launches}-- \n2.40.1\n")
    assert (parsed.program, parsed.request.per_node) == ("a.py", 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('X=""\nwhile read -r h; do\n  echo "$h"\ndone < $X\ntorchrun a.py', "an empty name"),
        (
            "Run::Launcher\n\u251c\u2500\u2500 Inference  (GPU 0)\n\u251c\u2500\u2500 torchrun\n",
            "expects the name of a program",
        ),
        (
            "Description: Starts a node (p4d)\nUserData: |\n  torchrun --nproc_per_node 8 a.py\n",
            "expects the name of a program",
        ),
    ],
)
def test_the_reason_is_that_of_the_text_and_not_of_its_first_sign(text: str, said: str) -> None:
    with pytest.raises(CommandRefused, match=said):
        parse_line(text)


def test_a_number_left_to_the_reader_may_have_a_blank_behind_its_sign() -> None:
    (missing,) = parse_line("torchrun --nproc_per_node=<# GPUs> a.py <arguments>").unknown
    assert missing.parts == ("<arguments>",)


def test_a_line_of_signs_of_comments_behind_signs_of_continuation_is_read_at_once() -> None:
    start = time.process_time()
    with suppress(CommandRefused):
        parse_line("\\ #" * 30_000)
    assert time.process_time() - start < 3
