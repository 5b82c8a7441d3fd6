"""Commands that people type today, carried out over two simulated hosts with gloo.

torch.distributed.launch inside srun, fabric and those of public projects: soak_commands.py.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deepspeed_package import needs_deepspeed, python_path
from tests.field_notes.ranks import LIGHT, SHIMS, shimmed
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = [pytest.mark.lab, pytest.mark.train, pytest.mark.slow]

NO_COMPILER = shimmed("no_compiler quick_end")  # with what shards: the file names FSDP
SHOW = """
import os, sys
told = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")}
line = " ".join(["saw", *told.values(), os.path.basename(os.getcwd()), str(sys.argv[1:])])
os.write(1, line.encode() + b"\\n")  # whole: two ranks write to one log
"""
# A program of the user's that starts torchrun itself, as llamafactory-cli does: torchrun takes what it is not
# given from PET_*.
WRAPPER = f"""#!{sys.executable}
import os, subprocess, sys
names = ("NODE_RANK", "NNODES", "NPROC_PER_NODE")
print("wrapper", *(os.environ[name] for name in names), flush=True)
sys.exit(subprocess.call([sys.executable, "-m", "torch.distributed.run", "show.py", *sys.argv[1:]]))
"""
ACCELERATE = """
import torch, time
from accelerate import Accelerator
accelerator = Accelerator()
model = accelerator.prepare(torch.nn.Linear(8, 4))
loss = model(torch.ones(2, 8)).pow(2).mean()
accelerator.backward(loss)
print(accelerator.distributed_type, "of", accelerator.num_processes, flush=True)
accelerator.end_training(); time.sleep(0.5)
"""
FILE = """
distributed_type: FSDP
num_machines: 1
num_processes: 8
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
"""
DEEPSPEED = """
import argparse, os, pathlib
import torch
# Else torch loads its compiler, half of a rank's time, for optimizers and a decorator of DeepSpeed.
torch.compile = lambda *made, **_: made[0] if made else lambda function: function
for method in (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad):
    inner = getattr(method, "__wrapped__", method)
    setattr(inner, "__dynamo_disable", inner)
import deepspeed
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--last", type=int)
deepspeed.add_config_arguments(parser)
args = parser.parse_args()
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # compiled for minutes, and gloo does without
deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
tags = sorted(path.name for path in pathlib.Path("checkpoints").glob("step*"))
done = engine.load_checkpoint("checkpoints", tag=tags[-1])[1]["step"] if tags else 0
cross = os.environ.get("CROSS_RANK", "none")
print("begins after step", done, "local rank", args.local_rank, "cross rank", cross, flush=True)
for step in range(done + 1, args.last + 1):
    loss = engine(torch.ones(2, 8, dtype=torch.bfloat16)).pow(2).mean()
    engine.backward(loss); engine.step()
    engine.save_checkpoint("checkpoints", tag="step%d" % step, client_state={"step": step})
    print("step", step, "zero", engine.zero_optimization_stage(), "of", args.last, flush=True)
torch.distributed.destroy_process_group()
"""
ZERO_2 = {
    "train_batch_size": 4,
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
    "checkpoint": {"use_node_local_storage": True},
}


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    project = cli.home / "project"
    project.mkdir()
    files = {
        "show.py": SHOW,
        "trainer-cli": WRAPPER,
        "train.sh": 'exec ./trainer-cli train "$@"\n',
        "accelerated.py": ACCELERATE,
        "zero.py": DEEPSPEED,
    }
    for name, text in (*files.items(), ("ds.json", json.dumps(ZERO_2))):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    (project / "trainer-cli").chmod(0o755)
    (cli.home / "fsdp.yaml").write_text(FILE)
    yield cli
    cli.close()
    for host in lab.hosts:
        host.run(["rm", "-rf", "/root/commands"])


def run(cli: Cli, command: str, **keys: object) -> str:
    """Run a command on two hosts to its end, and return what was printed."""
    config = {"command": command, "sync": {"from": "project"}, "workdir": "~/commands", **keys}
    (cli.home / "job.yaml").write_text(json.dumps(config))
    code, output = cli.run(",".join(host.name for host in cli.lab.hosts[:2]), timeout_s=200)
    assert code == 0, output
    return output


def test_a_wrapper_and_an_accelerate_file_run_on_two_hosts(cli: Cli) -> None:
    output = run(cli, "NPROC_PER_NODE=2 bash train.sh 'a b'", env=NO_COMPILER)
    assert [f"wrapper {node} 2 2" in output for node in range(2)] == [True, True]
    assert [f"saw {rank} 4 commands ['train', 'a b']" in output for rank in range(4)] == [True] * 4
    assert "no process of the run is left on any host" in output
    output = run(
        cli, "accelerate launch --config_file fsdp.yaml --num_processes 1 accelerated.py", env=NO_COMPILER
    )
    assert output.count("DistributedType.MULTI_CPU of 2") == 2
    assert "2 ranks as planned: world size 2, on the CPU" in output
    plans = [path.read_text() for path in cli.home.glob("gpulaunch-runs/*/plan.json")]
    assert ["accelerate has no FSDP on the CPU" in text for text in plans].count(True) == 1


@needs_deepspeed
@pytest.mark.timeout(450)
def test_zero_2_runs_on_two_hosts_and_resumes_through_the_other_engine(cli: Cli) -> None:
    env = shimmed(LIGHT, DS_ACCELERATOR="cpu", PYTHONPATH=f"{SHIMS}:{python_path()}")
    filters = "@".join(f"{host.name}:0" for host in cli.lab.hosts[:2])
    line = "zero.py --deepspeed --deepspeed_config ds.json --last"
    output = run(cli, f"deepspeed --include {filters} {line} 2", env=env)
    assert "2 ranks as planned: world size 2, on the CPU" in output
    assert output.count("step 2 zero 2 of 2") == 2
    for node in range(2):
        assert f"begins after step 0 local rank 0 cross rank {node}" in output
    output = run(cli, f"accelerate launch --num_processes 1 {line} 3", env=env)
    assert output.count("begins after step 2 local rank 0 cross rank none") == 2
    assert output.count("step 3 zero 2 of 3") == 2
