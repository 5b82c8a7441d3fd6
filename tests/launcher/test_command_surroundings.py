"""What stands around a command in files of clusters, of Windows and of Python: read, named or refused."""

import json

import pytest

from launcher.config.run_config import build_command_config
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Request
from launcher.errors import CommandRefused
from launcher.report.command import encode_command, render_command
from tests.hardware import titan
from tests.launcher.command_plans import planned

_SECRET = "hf_" + "s3cret" * 4

_DSTACK = "type: task\nnodes: 2\nenv:\n  - A=1\n  - HF_TOKEN\ncommands:\n  - torchrun a.py\n"
_VERTEX = """\
workerPoolSpecs:
- machineSpec: {acceleratorCount: 8}
  replicaCount: 1
  containerSpec:
    command: [torchrun, a.py]
- machineSpec:
    acceleratorCount: 8
  replicaCount: 3
  containerSpec:
    command: [torchrun, a.py]
"""
_MOSAIC = "compute:\n  gpus: 16\ncommand: composer a.py\n"
_VOLC = 'Entrypoint: "torchrun\n  a.py"\n# more\nArgs: "--lr 1"\nTaskRoleSpecs:\n- RoleReplicas: 2\n'
_POD = """\
kind: Pod
spec:
  containers:
  - workingDir: /work
    envFrom:
    - secretRef: {name: a}
    env:
    - name: KEY
      valueFrom:
        secretKeyRef:
          name: b
    command: ["python", "a.py"]
    resources:
      limits:
        nvidia.com/gpu: 4
"""
_COMPOSE = """\
services:
  train:
    env_file: .env
    working_dir: src
    entrypoint: python
    command: a.py --lr 1
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            device_ids: ['1', "3"]
            capabilities: [gpu]
"""


@pytest.mark.parametrize(
    ("text", "request_of_it", "keys"),
    [
        (_DSTACK, Request(nodes=2), ["nodes"]),
        (_VERTEX, Request(nodes=4), ["replicaCount"]),
        (_MOSAIC, Request(total=16), ["gpus"]),
        (
            "kind: PyTorchTrainingJob\nreplicaSpecs:\n- replicas: 3\n  command: torchrun a.py\n",
            Request(nodes=3),
            ["replicas"],
        ),
        (_VOLC, Request(nodes=2), ["RoleReplicas"]),
        (_COMPOSE, Request(gpus=(1, 3)), ["CUDA_VISIBLE_DEVICES"]),
        (_DSTACK.replace("type: task\n", ""), Request(), []),
        (_MOSAIC.replace("compute", "resources"), Request(), []),
    ],
)
def test_a_count_has_the_name_of_its_key(text: str, request_of_it: Request, keys: list[str]) -> None:
    parsed = parse_line(text)
    assert parsed.request == request_of_it
    assert [one.name for one in parsed.owned] == keys


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_DSTACK, ["HF_TOKEN: the manifest does not say its value"]),
        (_VERTEX, ["acceleratorCount 8: the plan takes GPUs"]),
        (
            _POD,
            ["workingDir /work: of the container", "nvidia.com/gpu 4: ", "envFrom: ", "KEY (secretKeyRef): "],
        ),
        (_COMPOSE, ["env_file .env: its variables are not read"]),
        (
            "num_nodes: 1\nsecrets:\n  A: null\nrun: torchrun a.py\n",
            ["A: the manifest does not say its value"],
        ),
        (
            "#PBS -l select=2:ngpus=4\n#PBS -q gpu\npython a.py\n",
            ["#PBS -l select=2:ngpus=4, -q gpu: for its"],
        ),
        (
            "defaults:\n  run:\n    working-directory: ${{ inputs.d }}\nsteps:\n- run: torchrun a.py\n",
            ["working-directory ${{ inputs.d }}: of the container"],
        ),
        ("#BSUB -n 8\ntorchrun a.py\n", ["#BSUB -n 8: for its scheduler alone"]),
        ("#MSUB -n 8 # tasks\ntorchrun a.py\n", ["#MSUB -n 8: for its scheduler alone"]),
        ("#$ -l gpu=2\ntorchrun a.py\n", ["#$ -l gpu=2: for its scheduler alone"]),
    ],
)
def test_what_a_key_says_to_its_cluster_alone_is_named(text: str, said: list[str]) -> None:
    dropped = parse_line(text).dropped
    assert len(dropped) == len(said)
    assert all(map(str.startswith, dropped, said)), dropped


@pytest.mark.parametrize(
    ("text", "directory", "program"),
    [
        (_COMPOSE, "src", "a.py"),
        ("steps:\n- working-directory: ex/b\n  run: torchrun a.py\n", "ex/b", "a.py"),
        ("steps:\n- working-directory: ../x y\n  run: torchrun a.py\n", "../x y", "a.py"),
        ("steps:\n- run: torchrun a.py\n- working-directory: ex\n  run: ls\n", "", "a.py"),
        ("defaults:\n  run:\n    working-directory: ex\nsteps:\n- run: torchrun a.py\n", "ex", "a.py"),
    ],
)
def test_a_directory_of_a_file_is_entered(text: str, directory: str, program: str) -> None:
    parsed = parse_line(text)
    assert (parsed.directory, parsed.program) == (directory, program)


@pytest.mark.parametrize(
    ("text", "args", "lacks"),
    [
        (_VOLC, ["--lr", "1"], False),
        ('command: ["bash", "-c", "\\\n  torchrun a.py \\\n  --x ${P[0]}"]\n', ["--x", "${P[0]}"], True),
        ("args: ['torchrun', 'a.py',  # one\n  '--s', \"it's\"]\n", ["--s", "it's"], False),
        ('#!/bin/bash\nset "A=b"\npython a.py --f %d%s%d\n', ["--f", "%d%s%d"], False),
        ("srun -N 1 /bin/bash <<'E'\ncd d\ntorchrun a.py --u $U\nE\n", ["--u", "$U"], True),
        (
            "L=1\nsbatch -N 2 <<E\n#!/bin/bash\n#SBATCH -t 1\nsrun python a.py --l $L --j \\$J\nE\n",
            ["--l", "1", "--j", "$J"],
            True,
        ),
        ("$Env:A = '1'\npython a.py --o `\n  1\n", ["--o", "1"], False),
        (".PHONY: a\na:\n\tuv run a.py $(ARGS)\nb:\n\tuv run pytest\n", [], False),
        ("x=($(f))\ntorchrun --nnodes ${#x[@]} --nproc_per_node ${x[2]} a.py\n", [], False),
    ],
)
def test_the_launch_of_a_file_is_read(text: str, args: list[str], lacks: bool) -> None:  # noqa: FBT001
    parsed = parse_line(text)
    assert parsed.program == "a.py"
    assert list(parsed.args) == args
    assert bool(parsed.unknown) is lacks
    assert parsed.request in (Request(), Request(nodes=1), Request(nodes=2))


def test_nodes_of_an_array_that_a_command_prints_are_open() -> None:
    assert parse_line("x=($(f))\ntorchrun --nnodes ${#x[@]} a.py").request == Request()
    assert parse_line("x=(a b)\ntorchrun --nnodes ${#x[@]} a.py").request == Request(nodes=2)


def test_a_container_may_start_a_script_of_its_own() -> None:
    pod = _POD.replace('["python", "a.py"]', '["./train.sh", "x"]')
    assert (parse_line(pod).launcher, parse_line(pod).program) == ("opaque", "./train.sh")


def test_prose_around_the_fences_of_a_page_is_no_command() -> None:
    page = "Install\n\n```\npip install x\n```\n\nThen:\n```python\nimport x\n```\n```\ntorchrun a.py\n```\n"
    assert parse_line(page).program == "a.py"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("python a.py -m hydra/launcher=submitit_slurm", "Hydra hands the runs", "hydra.launcher.*"),
        ("kind: RayJob\nspec:\n  entrypoint: python a.py\n", "workers of Ray", "-- python a.py"),
        (_POD.replace("command", "args").replace('"python", ', ""), "arguments and no command", "SCRIPT"),
        (
            "import os\nos.system(f'accelerate launch {X} a.py')\n",
            "program in Python",
            "-- accelerate launch {X} a.py",
        ),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'torchrun', n, 'a.py'])\n",
            "program in Python",
            "-- python -m torchrun {n} a.py",
        ),
        ("import x\nc = {'entrypoint': 'python a.py'}\nx.go(c)\n", "program in Python", "-- python a.py"),
        ('"""Run with torchrun a.py"""\nimport x\nx.go(1)\n', "program in Python", "-- torchrun SCRIPT.py"),
        (
            "@echo off\nif x==y torchrun b.py\npython a.py\n",
            "a batch file of Windows",
            "-- if x==y torchrun b.py",
        ),
        ("setlocal\npython a.py\n", "a batch file of Windows", "-- python a.py"),
        ("set -gx A 1\ntorchrun a.py\n", "a script of fish", "-- torchrun a.py"),
        ("for i in 1 2\n    torchrun a.py $i\nend\n", "a script of fish", "-- torchrun a.py $i"),
        ("if ($n > 1) then\n  torchrun a.py\nendif\n", "a script of csh", "-- torchrun a.py"),
        ("$n = 2\ntorchrun a.py $n\n", "a script of PowerShell", "-- torchrun a.py $n"),
        ("if (Test-Path venv) {\n  torchrun a.py\n}\n", "a script of PowerShell", "-- torchrun a.py"),
        ("$n=2; torchrun a.py $n\n", "a script of PowerShell", "-- torchrun a.py $n"),
        (
            "jobs:\n  a:\n    steps:\n    - run: |\n        $n = 2\n        torchrun a.py $n\n",
            "PowerShell",
            "$n",
        ),
        ("set n=2\ntorchrun a.py %n%\n", "a batch file of Windows", "-- torchrun a.py %n%"),
        ("call conda activate x\ntorchrun a.py\n", "a batch file of Windows", "-- torchrun a.py"),
        ("set --export A 1; torchrun a.py\n", "a script of fish", "-- torchrun a.py"),
        ("test -d x; and torchrun a.py\n", "a script of fish", "-- torchrun a.py"),
        ('set shell := ["fish", "-c"]\nx:\n  set -x A 1; torchrun a.py\n', "of fish", "-- torchrun a.py"),
        (
            "executable = /e/bin/torchrun\narguments = --nnodes 2 a.py\nqueue\n",
            "a submit file of HTCondor",
            "-- /e/bin/torchrun --nnodes 2 a.py",
        ),
        ('```dockerfile\nFROM x\nCMD ["torchrun", "a.py"]\n```\n', "a Dockerfile", "-- torchrun a.py"),
        ("ExecStart=/e/bin/python3 a.py\n", "a unit of a service", "-- /e/bin/python3 a.py"),
        (
            "[Service]\nExecStart=/bin/sh -c 'cd /w && torchrun a.py'\n",
            "a unit of a service",
            "-- /bin/sh -c 'cd /w && torchrun a.py'",
        ),
        (
            "universe = vanilla\nexecutable = run.sh\narguments = a.py\nqueue\n",
            "a submit file of HTCondor",
            "the command that trains",
        ),
        (
            'FROM x\nENV A=1\nRUN pip install y\nCMD ["torchrun", "a.py"]\n',
            "a Dockerfile",
            "-- torchrun a.py",
        ),
        ("FROM x\nWORKDIR /w\nCMD torchrun a.py\n", "a Dockerfile", "-- torchrun a.py"),
        (
            "[Service]\nExecStart=/e/bin/torchrun \\\n  a.py\n",
            "a unit of a service",
            "-- /e/bin/torchrun a.py",
        ),
        ("[program:x]\ncommand=torchrun a.py\n", "a unit of a service", "-- torchrun a.py"),
        ("[testenv]\ncommands =\n    torchrun a.py\n", "a file of tox", "-- torchrun a.py"),
        ("spring.submit arun -n2 'python -m train a=1'", "scheduler of its own", "-- 'python -m train a=1'"),
        ("runpodctl exec python a.py", "scheduler of its own", "-- python a.py"),
    ],
)
def test_what_another_program_starts_is_refused_with_the_launch_in_it(
    text: str, message: str, fix: str
) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line(text)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)


@pytest.mark.parametrize(
    "before",
    [
        "tmux \\\n  new-session -d -s x \\\n  ",
        "start-server &\n",
        "awk '{\n  $1 = 2\n}' x > y\n",
        "cat > x.service <<E\n[Service]\nExecStart=/e/bin/torchrun b.py\nE\n",
        "cat <<E\nfrom start\nto end\nend\nE\n",
        "executable=x\nqueue=main\n",
    ],
)
def test_a_script_that_only_looks_like_one_of_another_shell_is_read(before: str) -> None:
    assert parse_line(f"{before}torchrun a.py").program == "a.py"


@pytest.mark.parametrize(
    "text",
    [
        f"#PBS -v A=1,HF_TOKEN={_SECRET}\npython a.py\n",
        f"sbatch --export=ALL,MY_PASSWORD={_SECRET[3:]} <<'E'\n#!/bin/bash\npython a.py\nE\n",
        f"python a.py > {_SECRET}.log\n",
    ],
)
def test_a_secret_of_a_text_is_in_no_sentence_about_it_unless_asked_for(text: str) -> None:
    config = build_command_config([text])
    assert config.command is not None
    command, made = config.command, planned(config, titan(1))
    for asked in (False, True):
        shown = list(render_command(command, made, show_secrets=asked))
        for each in ("\n".join(shown), json.dumps(encode_command(command, made, show_secrets=asked))):
            assert (_SECRET[3:] in each) is asked


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={_SECRET} python a.py\nHF_TOKEN={_SECRET} torchrun b.py\n",
        f"kind: RayJob\nspec:\n  entrypoint: A_PASSWORD={_SECRET[3:]} python a.py\n",
        f"torchrun a.py --key '{_SECRET}\n",
    ],
)
def test_a_secret_of_a_text_is_not_in_what_refuses_it(text: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        parse_line(text)
    assert "s3cret" not in caught.value.message + caught.value.fix


def test_a_local_rank_that_each_rank_would_get_is_named() -> None:
    """`python train.py --local_rank=0`, as `ps` shows a rank, would send all ranks to one GPU."""
    said = parse_line("/usr/bin/python3 a.py --local_rank=0 --x").remarks
    assert len(said) == 1
    assert said[0].startswith("--local_rank is an argument of a.py")
    assert "with the same value" in said[0]


def test_an_older_name_of_an_option_counts_the_tasks_of_a_node() -> None:
    """`--tasks-per-node` is what Slurm's programs take for `--ntasks-per-node`, too."""
    for text in (
        "srun -N2 --tasks-per-node=8 python a.py",
        "#SBATCH -N 2\n#SBATCH --tasks-per-node=8\nsrun python a.py",
    ):
        assert parse_line(text).request == Request(nodes=2, per_node=8)


def test_a_launch_in_an_environment_is_no_command_of_the_shell() -> None:
    parsed = parse_line("python -c 'import a'\nconda run -n e torchrun a.py")
    assert (parsed.launcher, parsed.program) == ("torchrun", "a.py")
    with pytest.raises(CommandRefused, match="2 commands"):
        parse_line("conda run -n e python a.py\nconda run -n e python b.py")


def test_env_u_takes_back_what_the_text_exports() -> None:
    parsed = parse_line("unset C; export A=1 C=2\nenv -u A B=1 torchrun a.py")
    assert parsed.env == {"B": "1", "C": "2"}
    assert "A" in parsed.unset


@pytest.mark.parametrize(
    ("written", "runs", "args", "per_node"),
    [
        ("torchrun --nproc_per_node $N a.py \\$1 \\$X", "chmod +x run.sh; ./run.sh one", ["one", "5"], 4),
        ("torchrun --nproc_per_node $N a.py \\$1", "nohup bash -e run.sh 'x y' > log &", ["x", "y"], 4),
        ("#!/bin/bash\n#SBATCH -N 2\nsrun torchrun --nproc_per_node 8 a.py \\$X", "sbatch run.sh", ["5"], 8),
        ("M=2\nexport B=1", "source ./run.sh; torchrun --nproc_per_node $M a.py $B", ["1"], 2),
    ],
)
def test_a_script_that_the_text_writes_is_read(
    written: str, runs: str, args: list[str], per_node: int
) -> None:
    parsed = parse_line(f"N=4; Y=6; export X=5\ncat > run.sh <<E\n{written}\nE\n{runs}")
    assert (parsed.launcher, parsed.program, list(parsed.args)) == ("torchrun", "a.py", args)
    assert parsed.request.per_node == per_node
    assert not parsed.unknown


@pytest.mark.parametrize(
    "text",
    [
        "cat >> run.sh <<E\ntorchrun a.py\nE\nbash run.sh",
        "if [ -f x ]; then cat > run.sh <<E\ntorchrun a.py\nE\nfi\nbash run.sh",
        "cat > run.sh <<'E'\ntorchrun a.py $Y\nE\nY=6; bash run.sh",
        "cat > run.py <<'E'\n#!/usr/bin/env python\ntorchrun = 1\nE\n./run.py",
    ],
)
def test_a_script_that_is_written_in_part_is_not_read_as_whole(text: str) -> None:
    assert parse_line(text).unknown


@pytest.mark.parametrize("launch", ["mpirun -n 8 --hostfile", "deepspeed --hostfile"])
def test_a_file_of_nodes_that_a_job_sets_names_no_hosts(launch: str) -> None:
    program = "a.py" if launch.startswith("deepspeed") else "python a.py"
    parsed = parse_line(f"{launch} $PBS_NODEFILE {program}")
    assert not parsed.unknown
    assert not parsed.request.hostfile
    assert any("those of --hosts" in said for said in parsed.dropped)
    assert parse_line(f"{launch} $HOST_FILE {program}").unknown


@pytest.mark.parametrize("reader", ["stdbuf -o0 tee log", "sudo tee log", "nice stdbuf -oL grep -v a"])
def test_a_filter_of_logs_behind_other_programs_is_left_out(reader: str) -> None:
    assert parse_line(f"torchrun a.py 2>&1 | {reader}").program == "a.py"


@pytest.mark.parametrize("text", ["'\ntorchrun a.py\n'", '"""\ntorchrun a.py\n"""'])
def test_a_launch_that_is_quoted_as_a_whole_is_read(text: str) -> None:
    assert parse_line(text).program == "a.py"


def test_a_port_that_an_inner_text_gives_the_launcher_is_the_plans() -> None:
    text = (
        'export PORT=$((2 + SLURM_JOB_ID))\nexport L="torchrun --master_port $PORT"\nsrun bash -c "$L a.py{}"'
    )
    parsed = parse_line(text.format(""))
    assert not parsed.unknown
    assert "PORT" not in parsed.env
    lacking = parse_line(text.format(" $PORT")).unknown[0].message
    assert lacking == "the variable PORT has $((2 + SLURM_JOB_ID)), which has no value"
    assert not parse_line("export A=$(foo)\nA=3 torchrun a.py").unknown
