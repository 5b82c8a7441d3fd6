"""Conditions, loops, files in place and cells of notebooks around a launch: which commands of a text run."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import require_values
from launcher.engines.command_line.shell.bracket_tests import decide_test
from launcher.engines.command_line.shell.words import Word
from launcher.errors import CommandRefused

LAUNCH = "torchrun --nproc_per_node 2 a.py $X"
NONE = "it has no effect after the launch"
AFTER = "it comes after the launch: do it when the run has ended (on_end: of a run config starts a program)"
BEFORE = "it comes before the launch: do it on each host first, where it is still to be done"


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("if [ -z $X ]; then X=1; fi", ["1"]),
        ("X=2\nif [ -z $X ]; then X=1; fi", ["2"]),
        ("if [[ $1 != slurm ]]; then\n X=1\nelse\n X=2\nfi", ["1"]),
        ("N=4\nif [ $N -gt 8 ]; then X=1; elif [ $N -ge 4 ]; then X=2; else X=3; fi", ["2"]),
        ("N=4\nif [ $N -gt 1 ] && [ -z $M ]; then X=1; else X=2; fi", ["1"]),
        ("N=4\nif [ $N -gt 8 ] || [ -z $M ]; then X=1; else X=2; fi", ["1"]),
        ("N=4\nif ! [ $N -eq 4 ]; then X=1; else X=2; fi", ["2"]),
        ("if [ -n $M ]; then if [ -d d ]; then X=1; fi; else X=2; fi", ["2"]),
        ("if [ -z $M ]; then if [ -n $M ]; then X=1; fi; X=2; fi", ["2"]),
        ("X=1; [ -n $M ] && X=2", ["1"]),
        ("X=1; [ -z $M ] && X=2", ["2"]),
        ("X=1; [ -z $M ] || X=2", ["1"]),
        ("X=1; [ -n $M ] && X=2 || X=3", ["3"]),
        ("X=1; [[ -n $M ]] && { X=2; exit 1; }", ["1"]),
        ("X=1; while [ -n $M ]; do X=2; done", ["1"]),
        ("X=1; if [ -d d ]; then echo a; mkdir b; fi", ["1"]),
        ("X=1; [[ -f d && -f e ]] || { echo no; exit 1; }", ["1"]),
        ("X=1; for i in 1 2; do Y=$i; echo $i; done", ["1"]),
        ("X=1; case $M in a|b) Y=2;; *) Y=3;; esac", ["1"]),
        ("X=1; if command -v nvcc > /dev/null; then Y=1; fi", ["1"]),
        ("X=1; if [ ! -d data ]; then wget URL; fi", ["1"]),
        ("X=1; if [ ! -d data ]; then ./get_data.sh; uv run python make_data.py; fi", ["1"]),
        ("X=(); [ -n $M ] && X+=(b); X=${X[@]}", []),
        ("read -r -d '' X <<EOF\na b\nEOF", ["a", "b"]),
        ("M=3\nX=$(cat <<EOF\na $M\nEOF\n)", ["a", "3"]),
        ("cat <<'EOF'\ntorchrun b.py\nEOF\nX=1", ["1"]),
        ("X=$((2 ** 5))", ["32"]),
        ("X=$((!(2 == 3)))$((-(2 ** 2)))$((! 5 || 2))$((9007199254740993 / -1))", ["1-41-9007199254740993"]),
        ("N=8\nif ! { [ $N -eq 8 ]; }; then X=1; else X=2; fi", ["2"]),
        ("X=1; ( false ) && X=2", ["1"]),
        ("X=1; ( Y=1; [ -z $M ] ) && X=2", ["2"]),
        ("X=1; ! ( X=2; false ) || X=3", ["1"]),
        ("X=1; ! ( grep -q a b ); Y=1", ["1"]),
        ("X=1\n! { X=2; false; } && X=3", ["3"]),
        ("X=1; { X=2; true; } || X=3", ["2"]),
        ("if ! ( [ -z $M ] ); then X=1; else X=2; fi", ["2"]),
        ("X=1; [ -z $M ] && ( X=2 ) || X=3; ( ( false ) || true ) && X=4", ["4"]),
        ("false || false; X=1", ["1"]),
        ("X=1; ( exit 3 )", ["1"]),
        ("X=1; ( exit 3 ) && X=2", ["1"]),
        ("X=1; ( exit 3 ) || X=2", ["2"]),
        ("X=1; ( false; exit 0; false ) && X=2", ["2"]),
        ("X=1; ( cd a; [ -z $M ] && exit 1; torchrun b.py )", ["1"]),
        ("X=1; if ( exit 1 ); then X=2; else X=3; fi", ["3"]),
        ("X=1; ( ( exit 1 ); [ -n $M ] ) || X=2", ["2"]),
        ("f() ( exit 1; )\nf; X=1", ["1"]),
        ("f() { ( return 0 ); exit 1; }\n( f ); X=1", ["1"]),
        ("A=(--b 1 --c); M='d e'; X=\"${A[@]} $M\"", ["--b", "1", "--c", "d", "e"]),
        ("if [ $M ]; then X=1; else X=2; fi", ["2"]),
        ("M=a; if [[ $M ]]; then X=1; else X=2; fi", ["1"]),
        ('M=(); if [ "${M[@]}" ]; then X=1; else X=2; fi', ["2"]),
        ("X=$( dirname $( dirname ${PWD}/a/b))", ["/w"]),
        ("X=1; while [[ $# -gt 0 ]]; do X=$1; shift; done", ["1"]),
        ("X=1; while (( $# )); do case $1 in *) X=$2;; esac; shift; done", ["1"]),
        ("X=1; until [ $# -eq 0 ]; do X=$1; shift; done", ["1"]),
        ("X=1; while getopts 'x:' flag; do X=$OPTARG; done", ["1"]),
        ('X=1; for given in "$@"; do X=$given; done', ["1"]),
        ("X=1; for given; do X=$given; done", ["1"]),
        ("X=1; if [ $# -ge 1 ]; then X=$1; fi", ["1"]),
        ("usage() { echo u; exit 1; }\n[ $# -lt 1 ] && usage\nX=1", ["1"]),
        ("N=4\nif (( N > 2 && N % 2 == 0 )); then X=1; else X=2; fi", ["1"]),
        ("N=4\nX=1; ((N < 2)) && X=2", ["1"]),
        ("N=4\n(( N += 3 )); ((N--))\nX=$N", ["6"]),
        ("for ((i = 0; i < 3; i++)); do echo $i; done\nX=1", ["1"]),
        ("while read -r name; do echo $name; done < <(ls data)\nX=1", ["1"]),
        ("if [ -n $M ]; then wc -l < $M; fi\nX=1", ["1"]),
        (
            "M=org/model/b\nX=${M//\\//_}-${M/\\//-}-${M//o?/0}-${M/#org/me}-${M/%b/c}",
            ["org_model_b-org-model/b-0g/m0el/b-me/model/b-org/model/c"],
        ),
        ("M='a b'\nX=${M// /}${M/ b}", ["aba"]),
        ("M=bF16\nX=${M^^}-${M,,}-${M^}-${M:1:2}-${M: -2}-${M:1}-${#M}", ["BF16-bf16-BF16-F1-16-F16-4"]),
        ("M=2*3\nX=$(($M + 1))", ["7"]),
        ("M=/d/x.tar.gz\nX=${M##*/}-${M%%.*}-${M%.gz}-${M#/d/}", ["x.tar.gz-/d/x-/d/x.tar-x.tar.gz"]),
        ("M=/d/x.yaml\nX=$(basename $M .yaml)-$(dirname $M)", ["x-/d"]),
        ("X=$(realpath $(dirname $0)/..)", [".."]),
        ('X="$( cd -- "$( dirname -- "$0" )" &> /dev/null && pwd )"', ["/w"]),
        ("A=1 python3 -u - b <<'E'\nprint(\"it's\")\nE\nX=1", ["1"]),
        ("conda run -n e env A=1 \\\npython - <<E\nprint(1)\nE\nX=1", ["1"]),
        ("X=\"$(cat <<'E'\ndon't \")\nE\n)\"", ["don't", '")']),
        (
            "M=/x/env; N=runs/tensorboard\nO=p/eval P=q/git; X=$M,$N,$O,$P",
            ["/x/env,runs/tensorboard,p/eval,q/git"],
        ),
        ("if accelerate env || deepspeed --version; then echo; fi\nX=$((1 + 1))", ["2"]),
    ],
)
def test_a_condition_is_read_where_the_text_decides_it(text: str, args: list[str]) -> None:
    parsed = parse_line(f"{text}\n{LAUNCH}", {"PWD": "/w"})
    assert (parsed.launcher, parsed.program, list(parsed.args)) == ("torchrun", "a.py", args)
    assert parsed.request.per_node == 2


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ("[ a = a ]", True),
        ("[[ a != a ]]", False),
        ("test 3 -lt 4", True),
        ("[ ! -z a ]", True),
        ("! [ -n a ]", False),
        ("[ -z ]", True),
        ("[[ a == a* ]]", True),
        ("[ x -gt 4 ]", None),
        ("[ -d a ]", None),
        ("[ a ]", True),
        ("[ a -a b ]", True),
    ],
)
def test_a_test_is_decided_or_unknown(test: str, *, answer: bool | None) -> None:
    assert decide_test(tuple(Word(word) for word in test.split()), {}) is answer


def test_what_follows_the_launch_or_writes_its_log_is_no_argument() -> None:
    text = (
        "torchrun a.py \\\n  --x 1 \\\n> log.txt 2>&1 &\nkill $PID 2>/dev/null || true\naws s3 cp out s3://b"
    )
    parsed = parse_line(text)
    assert parsed.args == ("--x", "1")
    assert sum("it comes after the launch" in sentence for sentence in parsed.dropped) == 2
    assert parse_line("$ torchrun a.py \\\n> --x 1 \\\n> --y").args == ("--x", "1", "--y")
    assert parse_line("# torchrun a.py \\\n  --x 1").args == ("--x", "1")
    assert parse_line("# srun -N 1 \\\ntorchrun a.py --x 1").prefix == ""
    assert parse_line("> torchrun a.py \\\n> --x").args == ("--x",)
    assert parse_line("exec > >(tee -a log) 2>&1\ntorchrun a.py").args == ()
    assert parse_line("torchrun a.py \\  # comment\n  --x `# another` 1").args == ("--x", "1")
    for shown in (
        "( torchrun a.py --x 1 )",
        "{ torchrun a.py --x 1; }",
        "if true; then torchrun a.py --x 1; fi",
    ):
        assert parse_line(f"{shown} 2>&1 | tee -a log").args == ("--x", "1")
    assert parse_line("train:\n\ttorchrun a.py --x 1").args == ("--x", "1")


@pytest.mark.parametrize(
    "text",
    [
        'CMD ["torchrun", "a.py", "--x", "1 2"]',
        "command:\n  - torchrun\n  - a.py\nargs:\n  - --x\n  - '1 2'",
        "1. `torchrun a.py --x '1 2'`",
        "Run: torchrun a.py --x '1 2'",
        "torchrun\u3000a.py \u200b--x '1 2'\r\n",
        "- torchrun a.py --x '1 2'",
    ],
)
def test_a_command_of_a_manifest_or_a_list_is_one_command(text: str) -> None:
    assert parse_line(text).args == ("--x", "1 2")


def test_a_shell_within_the_text_sees_what_it_exports() -> None:
    text = "export N=4 CMD='a.py --x'\nM=3\nsrun bash -c 'torchrun --nproc_per_node $N --role $M $CMD'"
    parsed = parse_line(text)
    assert (parsed.request.per_node, parsed.program, parsed.args) == (4, "a.py", ("--x",))
    assert parsed.env == {"N": "4", "CMD": "a.py --x"}
    assert parsed.kept_words() == ()
    assert parse_line('"torchrun a.py --x"').args == ("--x",)
    assert parse_line("NNODES=$NNODES OMP_NUM_THREADS=$N x train").env == {}
    assert parse_line("torchrun --rdzv_endpoint $HOST:29400 a.py").request.main_port == 29400


def test_a_cell_of_a_notebook_is_shell_where_a_mark_says_so() -> None:
    cell = """%%time
import os
os.environ["HF_HOME"] = '/data/hf'
lr, steps = 1e-4, 5
model = "m n"
for name in ():
    print(name)
!pip install -q x
!accelerate launch a.py \\
    --model {model} --again "$model" --other {other}
print("done")
"""
    parsed = parse_line(cell.replace(" --other {other}", ""))
    assert any(sentence.startswith("pip install: it comes before") for sentence in parsed.dropped)
    assert parsed.args == ("--model", "m", "n", "--again", "m n")
    assert parsed.env == {"HF_HOME": "/data/hf"}
    with pytest.raises(CommandRefused, match="other"):
        require_values(parse_line(cell))


def test_a_launch_that_a_condition_asks_for_its_exit_code_is_one() -> None:
    parsed = parse_line(
        "A=4\nif ! torchrun --nproc_per_node $A a.py; then\n  exit 1\nelse\n  python b.py\nfi"
    )
    assert (parsed.program, parsed.request.per_node) == ("a.py", 4)
    assert f"python b.py: {AFTER}" in parsed.dropped


def test_a_function_that_launches_nothing_is_left_out_with_its_calls() -> None:
    text = (
        'log() {\n  echo "$1"\n}\nfunction note {\n  echo 1\n}\nlog "a \\\n b"\nnote\ntorchrun a.py\nlog end'
    )
    assert parse_line(text).args == ()


def test_a_report_of_an_installation_in_front_of_the_launch_is_left_out() -> None:
    parsed = parse_line("ds_report\ndeepspeed a.py")
    assert parsed.program == "a.py"
    assert any(sentence.startswith("ds_report: it comes before") for sentence in parsed.dropped)


SEVERAL = """export A=1
python first.py
cd d
for L in 1 2; do torchrun a.py --lr $L; done
pip install b
export A=2
eval "torchrun b.py; torchrun c.py"
"""


@pytest.mark.parametrize(
    ("number", "program", "args", "directory", "a"),
    [
        (1, "first.py", [], "", "1"),
        (2, "a.py", ["--lr", "1"], "d", "1"),
        (3, "a.py", ["--lr", "2"], "d", "1"),
    ],
)
def test_a_number_chooses_one_of_several_launches(
    number: int, program: str, args: list[str], directory: str, a: str
) -> None:
    parsed = parse_line(SEVERAL, number=number)
    assert (parsed.program, list(parsed.args), parsed.directory) == (program, args, directory)
    assert parsed.env == {"A": a}
    assert f"{number} of the 5 commands of the text: the others are left out" in parsed.dropped


def test_what_is_said_of_a_command_is_by_the_launch_that_is_chosen() -> None:
    text = "torchrun a.py\npip install x\nexport A=1\ntorchrun b.py\nunset A"
    first, second = parse_line(text, number=1).dropped, parse_line(text, number=2).dropped
    assert first[1:] == tuple(
        f"{one}: {why}" for one, why in (("pip", AFTER), ("export", NONE), ("unset", NONE))
    )
    assert second[1:] == (f"pip: {BEFORE}", f"unset: {NONE}")


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        (
            "torchrun a.py; torchrun b.py",
            3,
            "no launch 3, but 2 commands, 1: torchrun a.py; 2: torchrun b.py",
        ),
        ("torchrun a.py", 2, "one command, and no launch 2"),
        ("yes | torchrun a.py; python b.py", 2, "pipes into torchrun"),
        ("python b.py; yes | torchrun a.py", 3, "pipes into torchrun"),
        ("python b.py; torchrun a.py | sort", 2, "pipes into sort"),
    ],
)
def test_a_number_that_names_no_launch_is_refused(text: str, number: int, message: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line(text, number=number)
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["torchrun a.py\ntorchrun a.py", "for i in 1 2 3; do torchrun a.py; done"])
def test_a_launch_that_is_repeated_is_one(text: str) -> None:
    parsed = parse_line(text)
    assert parsed.program == "a.py"
    assert any(sentence.endswith("times, and gpulaunch once") for sentence in parsed.dropped)


@pytest.mark.parametrize(
    ("text", "number", "program"),
    [("eval 'python b.py; python c.py'", 2, "c.py"), ("bash -c 'python b.py; python c.py'", 1, "b.py")],
)
def test_a_number_chooses_in_a_text_within_the_text(text: str, number: int, program: str) -> None:
    assert parse_line(text, number=number).program == program


WRITES = "cat > ds.json <<EOT\n{'a': 1}\nEOT\ndeepspeed a.py --deepspeed ds.json"


@pytest.mark.parametrize(
    ("text", "local", "unknown"),
    [
        (WRITES, "{'a': 1}\n", ()),
        (
            WRITES,
            "{'a': 2}\n",
            ("reads ds.json, which the text writes, and it is another one on this machine",),
        ),
        (WRITES, None, ("reads ds.json, which the text writes, and it is not written yet",)),
        (WRITES.replace("cat > ds.json <<EOT", "cat <<EOT > ds.json"), "{'a': 1}", ()),
        ("envsubst < t > ds.json\ndeepspeed a.py --deepspeed ds.json", "{}", ()),
    ],
)
def test_a_file_that_the_text_writes_is_the_one_on_this_machine(
    text: str, local: str | None, unknown: tuple[str, ...]
) -> None:
    parsed = parse_line(text, files=lambda name: local if name == "ds.json" else None)
    assert tuple(one.message for one in parsed.unknown) == tuple(f"the launch {what}" for what in unknown)
    assert ("ds.json: taken as it is on this machine" in parsed.dropped) is (not unknown)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("data: raw\n\t./b.sh\n\ntrain: data\n\ttorchrun a.py\n\nraw:\n\t./a.sh\n", ["data", "raw"]),
        ("data:\n\tpython b.py\n\ntrain: data all.txt\n\ttorchrun a.py\n", ["data"]),
        ("train: data\n\ttorchrun a.py\n", ["data"]),
        (".PHONY: train\ntrain: data all.txt env\n\ttorchrun a.py\n", ["data", "env"]),
        ("example: on one node\n\ttorchrun a.py\n", []),
        ("all: train\n\ttrue\n\ntrain: all.txt\n\ttorchrun a.py\n", []),
        ("x := '1'\ndata:\n    ./b.sh\n\ntrain: data\n    torchrun a.py {{x}}\n", ["data"]),
        ('[tasks]\ndata = "./b.sh"\ntrain = {cmd = "torchrun a.py", depends-on = ["data"]}\n', ["data"]),
    ],
)
def test_the_tasks_that_the_launch_needs_first_are_named(text: str, first: list[str]) -> None:
    parsed = parse_line(text)
    assert (parsed.launcher, parsed.program) == ("torchrun", "a.py")
    assert [said for said in parsed.dropped if said.startswith("task ")] == [
        f"task {name}: {BEFORE}" for name in first
    ]


def test_a_launch_in_a_negated_group_is_read() -> None:
    parsed = parse_line("if ! { torchrun --nproc_per_node 2 a.py; }; then echo failed; fi")
    assert (parsed.launcher, parsed.program, parsed.request.per_node) == ("torchrun", "a.py", 2)


def test_settings_that_a_condition_guards_and_this_machine_lacks_set_nothing() -> None:
    with pytest.raises(CommandRefused) as caught:
        require_values(parse_line("cd x; . ./env.sh; torchrun a.py", {"PWD": "/w"}, files=lambda _: None))
    assert caught.value.message == ". ./env.sh: /w/x has no file ./env.sh with settings"
    assert caught.value.fix.startswith("start gpulaunch in the directory that has it, or")
    parsed = parse_line("if [ -f .env ]; then . .env; fi; torchrun a.py", files=lambda _: None)
    assert not parsed.unknown
    assert ". .env: no such file on this machine" in parsed.dropped


_JOB = """command: >-
  torchrun --nproc_per_node ${{inputs.n}} a.py
  --lr ${{ inputs.lr }} --steps ${{inputs.steps}}%s
environment_variables:
  LEVEL: INFO
inputs:
  n: 4  # GPUs
  lr:
    type: number
    default: 0.1
  steps: ${{parent.inputs.steps}}
  data:
    type: uri_folder
    path: azureml:data@latest
"""
_PIPELINE = "inputs:\n  steps: '500'\njobs:\n  train:\n" + "".join(
    f"    {line}\n" for line in _JOB.rstrip().split("\n")
)


def test_a_job_of_azure_ml_gives_its_inputs_and_those_of_its_pipeline() -> None:
    parsed = parse_line(_PIPELINE % "")
    assert (parsed.request.per_node, parsed.args) == (4, ("--lr", "0.1", "--steps", "500"))
    assert not parsed.unknown
    parsed = parse_line(_JOB % " --data ${{inputs.data}}")
    assert parsed.request.per_node == 4
    assert parsed.args[:4] == ("--lr", "0.1", "--steps", "${{parent.inputs.steps}}")
    (unknown,) = parsed.unknown
    assert unknown.message == "the line has ${{parent.inputs.steps}}, ${{inputs.data}}, which have no value"


def test_a_chosen_launch_leaves_out_those_that_the_text_does_not_decide() -> None:
    text = "torchrun a.py\nfor d in $(ls data); do torchrun b.py $d; done\npython c.py\n"
    parsed = parse_line(text, {}, None, 2)
    assert (parsed.program, parsed.unknown) == ("c.py", ())
    said = "torchrun b.py $d: the text does not decide whether it runs: it is left out"
    assert [one for one in parsed.dropped if "b.py" in one] == [said]
    with pytest.raises(CommandRefused, match="for"):
        parse_line("for d in $(ls data); do torchrun b.py $d; done\n")
