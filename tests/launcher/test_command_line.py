"""Command lines as people type them, taken apart."""

import time

import pytest

from launcher.engines.command_line.parse import parse_command, parse_line
from launcher.engines.command_line.parsed_command import (
    Environment,
    HostFilter,
    ParsedCommand,
    Request,
    require_values,
)
from launcher.errors import CommandRefused


def request_of(line: str) -> Request:
    return parse_line(line).request


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("torchrun train.py", Request()),
        ("torchrun --nproc_per_node 4 train.py", Request(per_node=4)),
        ("torchrun --nproc-per-node=gpu --nnodes=2:2 train.py", Request(nodes=2, per_node="gpu")),
        ("torchrun --nnode 2 --node_rank=1 train.py", Request(nodes=2, node_rank=1)),
        ("torchrun --rdzv_endpoint=[fd00::1]:1234 a.py", Request(main_address="fd00::1", main_port=1234)),
        ("torchrun --rdzv_backend c10d --rdzv_endpoint h a.py", Request(main_address="h")),
        ("torchrun --rdzv_conf timeout=900,is_host=1 a.py", Request(rendezvous_timeout=900)),
        ("torchrun --max_restarts 3 --log_dir d a.py", Request(max_restarts=3, log_dir="d")),
        ("torchrun --nnodes=$NNODES --nproc_per_node=$(nvidia-smi -L | wc -l) a.py", Request()),
        ("accelerate launch --num_processes 8 --num_machines 2 a.py", Request(nodes=2, total=8)),
        (
            "accelerate launch --gpu_ids 0,2 --mixed_precision bf16 a.py",
            Request(gpus=(0, 2), precision="bf16"),
        ),
        ("accelerate launch --cpu --num_cpu_threads_per_process 4 a.py", Request(on_cpu=True, omp_threads=4)),
        ("accelerate launch --gpu_ids all --config_file=c.yaml a.py", Request(config_file="c.yaml")),
        (
            "deepspeed -H hosts --num_nodes 2 --num_gpus 8 a.py",
            Request(hostfile="hosts", nodes=2, per_node=8),
        ),
        ("deepspeed -e b:1 a.py", Request(exclude=(HostFilter("b", (1,)),))),
        ("fabric run --devices 0,1 --num-nodes 2 a.py", Request(gpus=(0, 1), nodes=2)),
        ("fabric run a.py --devices auto --precision 16-mixed", Request(per_node="auto", precision="fp16")),
        ("mpirun -np 8 --map-by ppr:4:node:PE=8 python a.py", Request(total=8, per_node=4, nodes=2)),
        ("srun -N2 --ntasks-per-node=8 python a.py", Request(nodes=2, per_node=8)),
        ("env N=2 bash -c 'torchrun --nproc_per_node $N a.py'", Request(per_node=2)),
        ("srun --nodes=2 --ntasks-per-node=1 torchrun --nproc_per_node 8 a.py", Request(nodes=2, per_node=8)),
        (
            "srun -w n[08-10,3],m1 python a.py",
            Request(hosts=tuple(map(HostFilter, ("n08", "n09", "n10", "n3", "m1")))),
        ),
        ("CUDA_VISIBLE_DEVICES=1,0 MASTER_PORT=1234 python a.py", Request(gpus=(1, 0), main_port=1234)),
        ("NNODES=2 torchrun --nnodes 3 a.py", Request(nodes=3)),
        ("deepspeed --include localhost:0,2 a.py", Request(gpus=(0, 2))),
        ('deepspeed --include localhost:"6,7" a.py', Request(gpus=(6, 7))),
        ("mpirun -np 4 -H localhost:4 python a.py", Request(per_node=4)),
        (
            "mpiexec -n 8 --ppn 4 --envall --env A=1 --cpu-bind=depth -d 16 --no-vni python a.py",
            Request(total=8, per_node=4, nodes=2),
        ),
        ("mpirun -H localhost:3 python a.py", Request(per_node=3)),
        ("CUDA_VISIBLE_DEVICES='' python a.py", Request(on_cpu=True)),
        ("CUDA_VISIBLE_DEVICES=-1 torchrun --nproc_per_node 2 a.py", Request(on_cpu=True, per_node=2)),
        ("CUDA_VISIBLE_DEVICES=0,1, torchrun a.py", Request(gpus=(0, 1))),
        ("set CUDA_VISIBLE_DEVICES=1 && python a.py", Request(gpus=(1,))),
        ("setenv CUDA_VISIBLE_DEVICES 1\npython a.py", Request(gpus=(1,))),
        (
            "N=2\nG=$((4 * N))\ntorchrun --nnodes $N --nproc_per_node $((G / 2)) a.py",
            Request(nodes=2, per_node=4),
        ),
        ("N=${1:-2}; shift || true\ntorchrun --nproc_per_node ${N} a.py", Request(per_node=2)),
        (
            'A=(--num_gpus 2)\nA+=(--master_port $[20000 + 5])\ndeepspeed "${A[@]}" a.py',
            Request(per_node=2, main_port=20005),
        ),
        (
            'L=${L:-"--num_processes ${N:-3} --num_machines 1"}\naccelerate launch $L a.py',
            Request(total=3, nodes=1),
        ),
        (
            'A="--nproc_per_node 2 --node_rank $R --rdzv_id $(date +%s -u)"\ntorchrun $A a.py',
            Request(per_node=2),
        ),
        ("G=(0 1 2)\ntorchrun --nproc_per_node ${#G[@]} a.py", Request(per_node=3)),
        ("torchrun --master_port $((RANDOM % (23000 - 20000 + 1) + 20000)) a.py", Request()),
        (
            "srun --jobid $J bash -c 'torchrun --nnodes 2 --nproc_per_node 8 a.py'",
            Request(nodes=2, per_node=8),
        ),
        ('CMD="torchrun --nproc_per_node 2 a.py"\neval $CMD', Request(per_node=2)),
        ("python $(which torchrun) --nproc_per_node 2 a.py", Request(per_node=2)),
        ("python3 -m torchrun --nproc-per-node=2 a.py", Request(per_node=2)),
    ],
)
def test_what_a_line_asks_for(line: str, request_: Request) -> None:
    assert request_of(line) == request_


def test_a_line_is_taken_apart() -> None:
    words = ["torchrun", "--nproc-per-node", "4", "-t", "3", "-m", "pkg.train", "--lr", "1e-4", "--", "-x"]
    parsed = parse_command(words)
    assert parsed.words == tuple(words)
    assert (parsed.launcher, parsed.program_kind, parsed.program) == ("torchrun", "module", "pkg.train")
    assert parsed.program == "pkg.train"
    assert parsed.args == ("--lr", "1e-4", "--", "-x")
    assert parsed.kept_words() == ("--tee", "3")
    first = parsed.owned[0]
    assert (first.name, first.text, first.position, first.width) == (
        "--nproc_per_node",
        "--nproc-per-node 4",
        1,
        2,
    )


def of_kind(parsed: ParsedCommand) -> tuple[str, str, str]:
    return parsed.launcher, parsed.program_kind, parsed.program


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("python -m torch.distributed.run a.py", ("torchrun", "script", "a.py")),
        (
            "python3 -u -m torch.distributed.launch --use_env a.py",
            ("torch.distributed.launch", "script", "a.py"),
        ),
        ("python -m accelerate.commands.launch -m pkg", ("accelerate", "module", "pkg")),
        ("python -m accelerate.commands.accelerate_cli launch a.py", ("accelerate", "script", "a.py")),
        ("/opt/venv/bin/python -O -m pkg.train", ("python", "module", "pkg.train")),
        ("/opt/venv/bin/torchrun a.py", ("torchrun", "script", "a.py")),
        ("torchrun --no_python ./run.sh", ("torchrun", "executable", "./run.sh")),
        ("./train.py --lr 1", ("python", "script", "./train.py")),
        ("lightning run model a.py", ("fabric", "script", "a.py")),
        ("bash train.sh 4", ("opaque", "executable", "bash")),
        ("llamafactory-cli train sft.yaml", ("opaque", "executable", "llamafactory-cli")),
        ("uv run -m pkg.train", ("python", "module", "pkg.train")),
        ("uv --directory x run --extra gpu -- torchrun a.py", ("torchrun", "script", "a.py")),
        ("exec -a name python a.py", ("python", "script", "a.py")),
        ("user@host:~/x$ torchrun a.py", ("torchrun", "script", "a.py")),
        ("(base) root@host:/x# torchrun a.py", ("torchrun", "script", "a.py")),
        ("```bash\ntorchrun a.py\n```", ("torchrun", "script", "a.py")),
        ("%%bash\ntorchrun a.py", ("torchrun", "script", "a.py")),
        ("`torchrun a.py`", ("torchrun", "script", "a.py")),
        ("torchrun ^\n --nnodes 1 `\n --tee 3 \\\\\n a.py", ("torchrun", "script", "a.py")),
        ("sh -xeuc 'torchrun a.py'", ("torchrun", "script", "a.py")),
        ("bash -c 'cd x; make; ./run'", ("opaque", "executable", "bash")),
        ("bash -c ./run.sh", ("opaque", "executable", "./run.sh")),
        ("composer -n 2 --world_size 4 --node_rank 0 a.py", ("composer", "script", "a.py")),
        ("composer -n 8 -m pkg.train", ("composer", "module", "pkg.train")),
        ("colossalai run -H a,b a.py --nproc_per_node 2", ("colossalai", "script", "a.py")),
        ("colossalai run --nproc_per_node 2 -m pkg", ("colossalai", "module", "pkg")),
        ("tune run --nnodes 2 full --config c", ("opaque", "executable", "tune")),
        ("(cd x && torchrun a.py)", ("torchrun", "script", "a.py")),
        ("$ torchrun a.py \\\n  --lr 1\nstep 1 loss 2\n(done) [ok]", ("torchrun", "script", "a.py")),
        ("torchrun a.py\n# torchrun b.py", ("torchrun", "script", "a.py")),
        ("# torchrun a.py --x 1", ("torchrun", "script", "a.py")),
        (
            'export CMD="torchrun --role $(hostname) a.py"\nsrun bash -c "$CMD"',
            ("torchrun", "script", "a.py"),
        ),
        (
            "function port() {\n  ss | head\n}\nP=$(port)\ntorchrun --master_port $P a.py",
            ("torchrun", "script", "a.py"),
        ),
        ("%cd x\n%env A=1\n!accelerate launch a.py", ("accelerate", "script", "a.py")),
        ("PS C:\\x> $env:A = '1'; python .\\tools\\train.py", ("python", "script", "./tools/train.py")),
        ("accelerate config\naccelerate launch a.py", ("accelerate", "script", "a.py")),
        ("torchrun --role $(hostname -s): a.py", ("torchrun", "script", "a.py")),
        ("nohup time env A=1 uv run --frozen torchrun a.py &", ("torchrun", "script", "a.py")),
    ],
)
def test_which_launcher_starts_which_program(line: str, kind: tuple[str, str, str]) -> None:
    assert of_kind(parse_line(line)) == kind


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("deepspeed a.py", "--local_rank"),
        ("deepspeed --no_local_rank a.py", ""),
        ("python -m torch.distributed.launch a.py", "--local-rank"),
        ("python -m torch.distributed.launch --use-env a.py", ""),
        ("torchrun a.py", ""),
    ],
)
def test_whether_the_script_gets_a_local_rank(line: str, option: str) -> None:
    assert parse_line(line).local_rank_option == option


def test_an_option_behind_the_script_is_remarked() -> None:
    parsed = parse_line("deepspeed train.py --hostfile=hosts --deepspeed ds.json")
    assert parsed.request.hostfile == ""
    assert parsed.remarks == (
        "--hostfile is after train.py, and so an argument of it, not an option of deepspeed",
    )
    assert parse_line("deepspeed --hostfile=hosts train.py --lr 1").remarks == ()


@pytest.mark.parametrize("program", [("torchrun", "a.py"), ("python", "a.py"), ("fit",)])
def test_a_name_in_capitals_is_what_a_person_types(program: tuple[str, ...]) -> None:
    words = (*program, "--mode", "TRAIN_DIR")
    typed, pasted = parse_command(words), parse_line(" ".join(words))
    assert [remark.partition(":")[0] for remark in typed.remarks] == ["TRAIN_DIR"]
    assert not typed.unknown
    assert not pasted.remarks
    assert [(one.message, one.fix) for one in pasted.unknown] == [
        (
            "the line has TRAIN_DIR, which has no value",
            "write a value for it (args: of a run config takes words as they are)",
        )
    ]


def test_conda_run_names_an_environment() -> None:
    parsed = parse_line("conda run --no-capture-output -n train python a.py")
    assert parsed.environment == Environment("conda", "train")


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("torchrun --nnodes 1:4 a.py", "elastic launch of 1 to 4 nodes", "the number of hosts"),
        ("torchrun --rdzv_backend=etcd-v2 a.py", "needs an etcd server", "leave --rdzv_backend"),
        ("MIN_NNODES=1 MAX_NNODES=3 llamafactory-cli train a.yaml", "elastic launch of 1 to 3", "number"),
        ("fabric run --accelerator tpu a.py", "is tpu", "cuda"),
        ("srun -w 'a[1-' python a.py", "takes names of hosts", "a,b"),
        ("srun -w n[1-999999] python a.py", "takes names of hosts", "a,b"),
        ("torchrun --master_port abc a.py", "takes a whole number", "write --master_port 29500"),
        (f"torchrun --nnodes {'9' * 5000} a.py", "takes a whole number", "leave it out"),
        ("deepspeed --include a:\u00b2 a.py", "takes HOST or HOST:GPU", "a:0,1@b:0"),
        ("torchrun --nprocs 4 a.py", "torchrun has no option --nprocs", "did you mean --nproc"),
        ("torchrun --nproc_per_node --nnodes 2 a.py", "needs a value, and has '--nnodes'", "VALUE"),
        ("torchrun --nproc_per_node 4", "torchrun has no script", "write the script"),
        (
            "torchrun --nproc_per_node train.py",
            "--nproc_per_node has no value and takes train.py",
            "VALUE train.py",
        ),
        (
            "deepspeed --num_gpus ds/train.py",
            "--num_gpus has no value and takes ds/train.py",
            "--num_gpus VALUE",
        ),
        ("torchrun --nproc_per_node four a.py", "'four', and takes a number", "leave"),
        ("torchrun --nnodes 2 --node_rank 2 a.py", "node 2 of 2", "leave the rank"),
        ("torchrun --master_port 70000 a.py", "ports end at 65535", "29500"),
        ("torchrun --start_method forks a.py", "it takes spawn, fork, forkserver", "fork"),
        ("torchrun --standalone=1 a.py", "takes no value, and got '1'", "alone"),
        ("torchrun -m --no_python a.py", "exclude each other", "leave one"),
        ("torchrun --run_path a.py", "inside torch's launcher", "leave it out"),
        (
            "accelerate launch --num_processes 3 --num_machines 2 a.py",
            "cannot be shared equally",
            "write 2 or 4",
        ),
        ("accelerate launch --num_proc 3 a.py", "has no option --num_proc", "--num_processes"),
        ("accelerate launch --tpu a.py", "GPUs and CPUs", "leave it out"),
        ("accelerate config", "only accelerate launch", "accelerate launch"),
        ("deepspeed --include a:0 --num_gpus 2 a.py", "exclude --include", "leave the count"),
        ("deepspeed --include a:0 --exclude b a.py", "exclude each other", "leave one"),
        ("deepspeed --include a:x a.py", "takes HOST or HOST:GPU", "a:0,1@b:0"),
        ("deepspeed --autotuning run a.py", "autotuner", "on one host"),
        (
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 a.py",
            "4 processes per node on 2 GPUs",
            "name",
        ),
        ("CUDA_VISIBLE_DEVICES=0,0 python a.py", "names a GPU twice", "once"),
        ("mpirun -np 6 -npernode 4 -H a,b srun python a.py", "srun inside of mpirun", "leave one"),
        ("torchrun a.py --data $DATA", "has $DATA, which has no value", "export it"),
        ("torchrun a.py --n $(nproc) --d <dir>", "$(nproc), <dir>, which have no value", "write a value"),
        ("torchrun \u2013nnodes 2 a.py", "typographic", "write --"),
        ("torchrun a.py 'x", "has no end", "close it"),
        ("torchrun a.py && python b.py", "2 commands, 1: torchrun a.py; 2: python b.py", "--launch 1"),
        ("torchrun a.py | python show.py", "pipes into python", "output of gpulaunch"),
        ("for f in *.py; do torchrun $f; done", "shell loop", "paste one launch"),
        ("sudo torchrun a.py", "as root", "root@HOST"),
        ("sudo -E -u ana torchrun a.py", "another user", "ana@HOST"),
        ("sbatch job.sbatch", "submits a script", "gpulaunch init job.sbatch"),
        ("sbatch -N 2 --gres gpu:8 'my job.sh' --lr 1", "submits a script", "gpulaunch init 'my job.sh'"),
        ("sbatch -N 2 job", "submits a script", "gpulaunch init job makes"),
        ("sbatch --wrap 'torchrun a.py'", "submits a script", "launch what it wraps"),
        ("docker run x torchrun a.py", "container", "hosts.yaml"),
        ("docker run -v $PWD:/w y:1 bash -c 'cd w; torchrun a.py'", "container", "-- 'cd w; torchrun a.py'"),
        ("docker compose run t python a.py --x 'a b'", "container", "-- python a.py --x 'a b'"),
        (
            "kubectl exec -it pod -- torchrun a.py",
            "container",
            "via: {kubectl: pod}), and launch: gpulaunch run",
        ),
        ("tox -e train -- --lr 1", "pass_env", "the command of its environment"),
        ("dotenv -f .env run -- torchrun a.py", "variables that gpulaunch cannot see", "env:"),
        ("systemd-run --scope torchrun a.py", "outside of the run", "--detach"),
        (r"torchrun a.py --d C:\Users\ana", r"C:\Users\ana, a path of Windows", "that the hosts have"),
        (r'torchrun a.py --d "D:\my data\x"', "a path of Windows", "that the hosts have"),
        ("python -c 'print(1)'", "in the command line itself", "file"),
        ("python -m pdb a.py", "wait for a terminal in every rank", "gpulaunch stacks"),
        ("singularity exec --nv i.sif torchrun a.py", "container of its own", "via:"),
        ("nsys profile torchrun a.py", "watch the launcher", "torchrun --no_python nsys ... python SCRIPT"),
        ("pdsh -w a,b torchrun a.py", "on hosts of its own", "gpulaunch run --hosts a,b -- 'torchrun a.py'"),
        ("jsrun -n 4 python a.py", "scheduler of its own", "leave it"),
        ("srun pkill python", "pkill python starts no training", "the command that trains"),
        ("sudo apt update\napt install x", "apt update starts no training", "the command that trains"),
        ("colossalai run --extra_launch_args a=1 a.py", "options of the torchrun inside", "write torchrun"),
        ("tune run --nproc_per_node 2", "no recipe to start", "the recipe"),
        ("python a.py --d [PATH_TO_DATA]", "[PATH_TO_DATA], which has no value", "write a value"),
        ("python a.py --d='<path to data>'", "<path to data>, which has no value", "write a value"),
        ("python a.py --d <数据目录>", "<数据目录>, which has no value", "write a value"),
        ("python a.py --d %USERPROFILE%", "%USERPROFILE%, which has no value", "write a value"),
        ("mpirun -wdir $D python a.py", "-wdir has $D", "export it"),
        ("uv run --env-file .env a.py", "--env-file .env sets what gpulaunch cannot see", "NAME=VALUE"),
        (
            "bsub -n 4 -W 9:00 torchrun a.py --x 1",
            "scheduler",
            "launch: gpulaunch run --hosts A,B -- torchrun a.py --x 1",
        ),
        ("docker run -it -v a:b i:1 prog torchrun --x", "container", "--hosts A,B -- prog torchrun --x"),
        ("docker run --gpus all i:1 sh train.sh", "container", "--hosts A,B -- sh train.sh"),
        ("docker run --gpus all i:1", "container", "the command that trains in it"),
        ("apptainer exec --nv -B a:b i.sif bash t.sh 3", "container", "--hosts A,B -- bash t.sh 3"),
        ("apptainer_wrapper exec torchrun a.py", "container", "--hosts A,B -- torchrun a.py"),
        (
            "pbsdsh -- bash -lc 'torchrun a.py'",
            "scheduler",
            "launch: gpulaunch run --hosts A,B -- 'torchrun a.py'",
        ),
        ("blaunch -z 'a b' torchrun a.py --x 1", "scheduler", "--hosts A,B -- torchrun a.py --x 1"),
        ("torchx run dist.ddp -j 2x8 --script a.py -- --x 1", "scheduler", "--nproc_per_node 8 a.py --x 1"),
        ("torchx run dist.ddp -m a.b -- --x 1", "scheduler", "-- torchrun -m a.b --x 1"),
        ("sky launch --gpus A100:8 'torchrun a.py'", "scheduler", "--hosts A,B -- 'torchrun a.py'"),
        ("debugpy-run -m torch.distributed.run -p 5678 -- a.py", "waits for a debugger", "leave it out"),
        (
            "python -m determined.launch.torch_distributed --trial -- python3 t.py --lr 1",
            "asks the master of Determined for its hosts",
            "-- torchrun t.py --lr 1",
        ),
        (
            "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='t.py', instance_count=2).fit()",
            "a program in Python, and not a command",
            "-- torchrun t.py, with its hyperparameters",
        ),
        (
            "import ray\njobs.submit_job(entrypoint='python t.py --x')",
            "a program in Python",
            "--hosts A,B -- python t.py --x",
        ),
        ("import torch\nimport os\nprint(1)", "a program in Python", "torchrun SCRIPT.py"),
        (
            '[ -z "$JOB" ] && exit 1\nsrun --nodes=$NODES torchrun a.py',
            "ends with exit 1 before it launches something",
            "a value",
        ),
        ("mpirun -np 1 -H a python a.py : -np 1 -H b python a.py", "several programs", "one program"),
        (
            "cat <<EOT > ds.json\n{}\nEOT\ndeepspeed a.py --deepspeed ds.json",
            "reads ds.json, which the text writes, and it is not written yet",
            "write it as the text does",
        ),
        ("run() { torchrun a.py; }", "shell function, run", "inside of it"),
        ("torchrun a.py (b) c", "no parenthesis behind", "in quotes"),
        ("[ -d x ] && torchrun a.py", "loop or condition ([)", "one launch"),
        (". ./env.sh && torchrun a.py", ". ./env.sh sets what gpulaunch cannot see", "bash SCRIPT"),
        ("cd $(hostname) && torchrun a.py", "cd has $(hostname)", "write a value"),
        ("CUDA_VISIBLE_DEVICES=$GPU torchrun a.py", "has $GPU, which has no value", "export it"),
        ("accelerate launch --config_file $CFG a.py", "has $CFG, which has no value", "export it"),
        ("torchrun a.py \\\n # --resume \\\n --lr 1", "ends before --lr", "take the comment out"),
        ("torchrun a.py ...", "has ..., which has no value", "write a value"),
        ("torchrun a.py --data d/*.json", "d/*.json, which a shell would replace", "quotes"),
        ("torchrun a.py --x ${A", "has no end", "close it"),
        ("torchrun --nproc_per_node 8 a.py --out $(date +%F)", "$(date +%F), which has no value", "value"),
        ("HOST=$(hostname)\ntorchrun a.py --at $HOST", "$(hostname), which has no value", "write a value"),
        ("torchrun a\0.py", "a NUL character", "as text"),
        ("torchrun a.py".ljust(250_001), "250,001 characters, more than a launch script", "the launch alone"),
        ("\n" * 100_000, "no command", "paste it"),
        ("a := 'b'\nt:\n  {{" + " " * 90_000, "no task that starts a launcher", "that trains"),
        ("FROM a\nCMD a" + " " * 90_000 + "b", "a Dockerfile", "that trains"),
        ("a:\n\tb\nc:\n\td\nA = e" + " " * 90_000 + "f", "has 2 commands", "that trains"),
        ("#!/bin/csh\nif (" + "=" * 90_000 + " a b) then\nendif", "a script of csh", "that trains"),
        ("read A <<< x\n" * 10_000 + "torchrun", "no script to start", "after the options"),
        ("".join(f"python {n}.py\n" for n in range(1001)), "more than 1000 commands", "paste one launch"),
        ("nice " * 501 + "python a.py", "more than 500 commands around its launch", "the command alone"),
        ("\x1b[31mtorchrun\x1b[0m a.py", "expects the name of a program", "paste it from torchrun"),
        ("python", "names no script", "python SCRIPT"),
        ("CUDA_VISIBLE_DEVICES=0", "has no command", "paste it"),
        ("", "no command", "paste it"),
    ],
)
def test_a_bad_line_has_one_clear_error(line: str, message: str, fix: str) -> None:
    began = time.process_time()
    with pytest.raises(CommandRefused) as caught:
        require_values(parse_line(line))
    assert time.process_time() - began < 2.0  # a pattern that backtracks takes longer
    assert message in caught.value.message
    assert fix in caught.value.fix
    assert "\n" not in caught.value.message
