"""Texts of a page or a script around a command: what is taken from them, and what is said of the rest."""

from pathlib import Path

import pytest

from launcher.commands._argv import _is_command
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Environment, Request
from launcher.errors import CommandRefused


def test_a_script_for_one_launch_is_one_command() -> None:
    parsed = parse_line(
        """
        #!/bin/bash
        set -ex
        source .venv/bin/activate
        export CUDA_DEVICE_MAX_CONNECTIONS=1   # for sequence parallelism
        GPUS=8
        DISTRIBUTED=(
            --nproc_per_node $GPUS
            --nnodes ${NNODES:-1}
        )
        MODEL="--layers 12 --hidden 768"
        cd examples && torchrun ${DISTRIBUTED[@]} pretrain.py \\
            $MODEL \\
            --name "a b" 'c$d' > log.txt 2>&1 &
        wait
        """
    )
    assert (parsed.launcher, parsed.program_kind, parsed.program) == ("torchrun", "script", "pretrain.py")
    assert parsed.request == Request(nodes=1, per_node=8)
    assert parsed.args == ("--layers", "12", "--hidden", "768", "--name", "a b", "c$d")
    assert parsed.env == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    assert parsed.directory == "examples"
    assert parsed.environment == Environment("venv", path=".venv")
    assert len(parsed.dropped) == 6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "source .venv/bin/activate && torchrun a.py",
            "source .venv/bin/activate: the interpreter is that of",
        ),
        ("conda activate x\ntorchrun a.py", "conda activate: the interpreter is that of each host"),
        (". activate x\npython a.py", ". activate: the interpreter is that of each host"),
        (
            'eval "$(conda shell.bash hook)"; python a.py',
            "eval $(conda shell.bash hook): of this machine only",
        ),
        ("module load cuda\ntorchrun a.py", "module load cuda: of this machine only"),
        ("source ~/.bashrc; torchrun a.py", "source ~/.bashrc: of this machine only"),
        ("ulimit -n 9; torchrun a.py", "ulimit -n 9: limits are those of each host"),
        ("torchrun a.py && echo done", "echo: starts nothing"),
        ("python3 --version || exit 1\ntorchrun a.py", "python3: starts nothing"),
        ("nohup torchrun a.py > log & tail -f log", "tail: starts nothing"),
        ("mkdir -p out; torchrun a.py", "mkdir -p out: make it on each host"),
        ("export PATH=/opt/bin:$PATH\ntorchrun a.py", "PATH: that of each host"),
        ("mpirun -x PATH python a.py", "PATH: that of each host"),
        ('torchrun a.py "$@"', "$@: the text has no arguments of its own"),
        ("bash -c 'torchrun a.py'", "bash: its text is the command"),
        (
            "#SBATCH --nodes=4\nexport H=`scontrol show hostnames $SLURM_JOB_NODELIST`\ntorchrun a.py",
            "export H: the hosts and addresses are those",
        ),
        (
            "#SBATCH -N 4\n#SBATCH --time=9\ntorchrun a.py",
            "#SBATCH -N 4, --time=9: for sbatch, but for counts, a directory",
        ),
        (
            "#!/bin/bash\n#SBATCH -N 4\necho a\n#SBATCH -N 8\nsrun torchrun --nnodes $SLURM_NNODES a.py",
            "#SBATCH -N 8: Slurm reads no such line behind the first command of its script",
        ),
        ("#SBATCH -N 4 --mem 9 --gres=gpu:2 # c\na.py", "#SBATCH -N 4, --mem 9, --gres=gpu:2: for sbatch"),
        ("huggingface-cli login --token X\ntorchrun a.py", "huggingface-cli login: it comes before"),
        ("accelerate config default\naccelerate launch a.py", "accelerate config: the launch reads the"),
        ("sudo nvidia-smi -pm 1\ntorchrun a.py", "nvidia-smi -pm: it comes before the launch"),
        ("nvidia-smi -c 3\ntorchrun a.py", "nvidia-smi -c: it comes before the launch"),
        ("ibv_devinfo -l\ntorchrun a.py", "ibv_devinfo: starts nothing"),
        ("srun -N 2 hostname\ntorchrun a.py", "hostname: starts nothing"),
        ("mpirun -np 2 rsync -a x /tmp\ntorchrun a.py", "rsync -a: it comes before the launch"),
        (
            "torchrun --nproc_per_node 2\\\n--nnodes 1 a.py",
            "\\: without a blank in front of it a shell joins",
        ),
        ("torchrun a.py; python -c 'x'", "python -c: it comes after the launch"),
        ("echo A=1 >> .env\ntorchrun a.py", "echo > .env: written by the text alone"),
        ("[ -d x ] || mkdir x\ntorchrun a.py", "mkdir x: make it on each host"),
        ("export KEY\ntorchrun a.py", "export KEY: the text does not say its value"),
        ("export LIBS=/x:$LIBS\ntorchrun a.py", "$LIBS: the value that a host has itself is replaced"),
        ("LIBS=/x:$LIBS torchrun a.py", "$LIBS: the value that a host has itself is replaced"),
        ("cd x; torchrun a.py; cd ..", "cd: it has no effect after the launch"),
        ("torchrun --role $(hostname): a.py", "--role $(hostname):: only a word in front"),
        ("export P=$((1 + $RANDOM))\ntorchrun --master_port=$P a.py", "P: it only gives the launcher a port"),
        ("torchrun --log-dir logs/$$ a.py", "--log-dir logs/$$: gpulaunch-runs has the logs, too"),
        (
            "torchrun --nnodes 2 --node_rank 0 a.py\ntorchrun --nnodes 2 --node_rank=1 a.py",
            "torchrun: the text has it for 2 nodes, and gpulaunch for each host",
        ),
    ],
)
def test_what_has_no_effect_on_hosts_is_said(line: str, said: str) -> None:
    parsed = parse_line(line)
    assert parsed.args == ()
    assert any(sentence.startswith(said) for sentence in parsed.dropped)


@pytest.mark.parametrize(
    ("lines", "directory", "env"),
    [
        ("#SBATCH --chdir=/p --export=ALL,A=1", "/p", {"A": "1"}),
        ('#SBATCH -D /o\n#SBATCH -D p # last\n#SBATCH --export="NONE,A=b c,B"', "p", {"A": "b c"}),
        ("#SBATCH --export-file=x -J a-D\n##SBATCH -D /p\ntrue\n#SBATCH -D /p", "", {}),
        ("#SBATCH --export=$X,A='$Y'", "", {"A": "$Y"}),
    ],
)
def test_a_batch_script_starts_where_and_with_what_its_lines_say(
    lines: str, directory: str, env: dict[str, str]
) -> None:
    parsed = parse_line(f"#!/bin/bash\n{lines}\nsrun python a.py ${{A:-0}}")
    assert (parsed.directory, parsed.env, " ".join(parsed.args)) == (directory, env, env.get("A", "0"))


def test_a_variable_of_this_machine_does_not_stand_for_one_that_the_text_sets() -> None:
    text = "MASTER_PORT=$(shuf -n 1 -i 1-9)\n"
    text += "export PYTHONPATH=./:$PYTHONPATH B=~/b\n"
    text += "torchrun --master_port $MASTER_PORT a.py"
    parsed = parse_line(text, {"MASTER_PORT": "77", "HOME": "/home/ana"})
    assert parsed.request == Request()
    assert parsed.env == {"PYTHONPATH": "./:", "B": "/home/ana/b"}
    assert parse_line("torchrun a.py --d ~/x '~/y' a~", {"HOME": "/h"}).args == ("--d", "/h/x", "~/y", "a~")


def test_a_launcher_by_path_names_its_interpreter() -> None:
    assert parse_line("/opt/e/bin/accelerate launch a.py").python == "/opt/e/bin/python"
    assert parse_line("bin/torchrun a.py").python == "bin/python"
    assert parse_line("./torchrun a.py").python == ""
    image = "image: pytorch/pytorch\ncommand: [/opt/e/bin/torchrun, a.py]\n"
    assert parse_line(image).python == "python", "a path of an image is none of a host"


def test_counts_inside_of_an_opaque_command_are_remarked() -> None:
    parsed = parse_line("train start --nproc_per_node 4 full --config x")
    assert parsed.remarks == (
        "--nproc_per_node is an option of train, which gpulaunch cannot change; without it the plan's holds",
    )


@pytest.mark.parametrize(
    ("line", "directory"),
    [
        ("cd x && torchrun a.py", "x"),
        ("cd x; cd ../y; torchrun a.py", "y"),
        ("cd x && cd - && torchrun a.py", ""),
        ("cd $(dirname $0)/.. && torchrun a.py", ".."),
        ('cd "$(dirname "${BASH_SOURCE[0]}")"\ntorchrun a.py', "."),
        ("cd x && uv run --directory y torchrun a.py", "x/y"),
        ("cd x && bash -c 'cd y && torchrun a.py'", "x/y"),
        ("env -C x torchrun a.py", "x"),
        ("srun --chdir=x python a.py", "x"),
        ("mpirun -np 2 -wdir /data python a.py", "/data"),
        ("cd ~/x && torchrun a.py", "/home/ana/x"),
    ],
)
def test_the_directory_that_a_line_enters(line: str, directory: str) -> None:
    assert parse_line(line, {"HOME": "/home/ana"}).directory == directory


def test_what_follows_from_the_text_alone_is_filled_in() -> None:
    text = "cd x\nD=$(cd $(dirname $0)/..; pwd) N=4\n"
    text += "torchrun --a $PWD --b $D --c $(expr 8 / $N) --d out/$(date +%Y) --e $(whoami) --f $'a\\nb' a.py"
    line = text.replace("torchrun", "python a.py")
    known = {"PWD": "/w", "USER": "ana", "EPOCHSECONDS": "1700000000"}
    assert parse_line(line, known).args[:12] == (
        *("--a", "/w/x", "--b", "/w", "--c", "2", "--d", "out/2023", "--e", "ana", "--f", "a\nb"),
    )


def test_tune_run_takes_the_options_of_torchrun() -> None:
    parsed = parse_line("tune run --nnodes 1 --nproc_per_node 2 --tee 3 lora --config c")
    assert (parsed.request, parsed.options_at) == (Request(nodes=1, per_node=2), 1)
    assert (parsed.args, parsed.kept_words()) == (("run", "lora", "--config", "c"), ("--tee", "3"))
    assert parse_line("tune run lora --config c").options_at is None


def test_a_text_that_ends_with_a_script_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my train.py").write_text("")
    given = [("torchrun a.py",), ("cd x\ntorchrun a.py",), ("a.py",), ("my train.py",), ("torchrun", "a.py")]
    given += [
        ("no such.py",),
        ("runs of/my train.py",),
        ("conda run a.py",),
        ("python -u a.py",),
        ("A=1 ./a.py",),
    ]
    seen = [_is_command(["run", *words], {"extra": words}) for words in given]
    assert seen == [True, True, False, False, True, False, False, True, True, True]
    assert not _is_command(["run", "torchrun a.py"], {"extra": ("torchrun a.py",), "config": "c"})
    assert not _is_command(["run", "--", "a.py", "x y"], {"extra": ("a.py", "x y")})


def test_parts_without_a_value_are_marked_once_each() -> None:
    """A variable that doubles what lacks a value: each of 65,536 parts is found behind the one before."""
    parsed = parse_line("\n".join(("A=$Q", *["A=$A$A"] * 16, "torchrun a.py $A")), {})
    assert parsed.args == ("$Q" * 2**16,)
    assert parse_line("A='$Q x'\nB=$A$Q\ntorchrun a.py b$Q $B c", {}).args == ("b$Q", "$Q", "x$Q", "c")


def test_options_behind_two_dashes_are_those_of_the_script() -> None:
    parsed = parse_line("colossalai run a.py --nproc_per_node 2 -- --x 1 --nproc_per_node 3")
    assert (parsed.program, parsed.request, parsed.args) == (
        "a.py",
        Request(per_node=2),
        ("--x", "1", "--nproc_per_node", "3"),
    )


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("torchrun a.py --x \\\n  > out.log \\\n  2> err.log", ["--x"]),
        ('torchrun a.py --x \\\n  > "$L/a b.log" 2> err.log', ["--x"]),
        ("torchrun a.py --x \\\n  > out.log 2>&1 | tee b.log", ["--x"]),
        ("torchrun a.py --x \\\n  > >(tee a.log) \\\n  2> >(tee b.log >&2)", ["--x"]),
        ("torchrun a.py --x \\\n  > l/$(date +%F).log 2>&1", ["--x"]),
        ("torchrun a.py \\\n  --x \\\n  > 'a b.log'", ["--x"]),
        ("torchrun a.py --x \\\n  > out.log; echo done", ["--x"]),
        ("torchrun a.py --x \\\n  > out.log < /dev/null &", ["--x"]),
        ("$ torchrun a.py \\\n    --x \\\n    > out.log", ["--x"]),
        ("!torchrun a.py --x \\\n  > out.log", ["--x"]),
        ("torchrun a.py \\\n> b.yaml --x", ["b.yaml", "--x"]),
        ("torchrun a.py \\\n> b.yaml \\\n> --x", ["b.yaml", "--x"]),
        ("$ torchrun a.py \\\n> b.yaml", ["b.yaml"]),
        ("torchrun a.py \\\n> --x", ["--x"]),
    ],
)
def test_a_line_that_goes_on_with_a_file_of_output_is_no_prompt(text: str, args: list[str]) -> None:
    """`> out.log` behind a backslash is a redirection; `> ` in front of each line is bash's second prompt."""
    assert list(parse_line(text).args) == args


@pytest.mark.parametrize(
    ("magic", "launcher", "program", "args"),
    [
        (
            "%run -m torch.distributed.launch -- --nproc_per_node=8 t.py -x",
            "torch.distributed.launch",
            "t.py",
            ["-x"],
        ),
        ("%run -m pkg.train -- --x 1", "python", "pkg.train", ["--x", "1"]),
        ("%run -i -n train.py --x", "python", "train.py", ["--x"]),
        ("%run -t -N 3 train.py -d", "python", "train.py", ["-d"]),
    ],
)
def test_a_magic_that_runs_a_program_is_python(
    magic: str, launcher: str, program: str, args: list[str]
) -> None:
    """IPython takes options of its own, and `--` behind a module."""
    for text in (magic, f"!pip install x\n{magic}"):
        parsed = parse_line(text)
        assert (parsed.launcher, parsed.program, list(parsed.args)) == (launcher, program, args)


def test_a_launch_in_a_variable_has_what_a_template_fills_in() -> None:
    """As it has in the line itself; a prompt in a variable keeps its own."""
    parsed = parse_line('L="torchrun --nproc_per_node {{ n }}"\nP="say {{ x }} y"\n$L a.py --prompt "$P"')
    assert (parsed.program, list(parsed.args), parsed.unknown) == ("a.py", ["--prompt", "say {{ x }} y"], ())


@pytest.mark.parametrize(
    ("count", "asks"),
    [
        ("scontrol show hostnames $SLURM_JOB_NODELIST | wc -l", "--nnodes=2"),
        ('scontrol show hostnames "$SLURM_NODELIST" | wc -l', "--nnodes=2"),
    ],
)
def test_the_nodes_of_a_job_are_counted_as_its_lines_say(count: str, asks: str) -> None:
    text = (
        f"#SBATCH -N 2\nN=$({count})\nif [ $N -gt 1 ]; then\n  L='torchrun {asks} a.py'\nelse\n  L=\nfi\n$L\n"
    )
    assert parse_line(text).request.nodes == 2
    unknown = text.replace("#SBATCH -N 2", "#")
    with pytest.raises(CommandRefused, match="set in a condition"):
        parse_line(unknown)


def test_the_names_of_the_nodes_of_a_job_stay_unknown() -> None:
    text = (
        "#SBATCH -N 2\nexport H=$(scontrol show hostnames | tr 'a' 'b')\ntorchrun a.py --h $H $SLURM_NNODES\n"
    )
    assert any("scontrol" in one.message for one in parse_line(text).unknown)
