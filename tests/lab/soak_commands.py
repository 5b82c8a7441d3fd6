"""Commands as public projects print them, each really run over two simulated hosts; `make soak` runs it.

The programs are ours, under the names that the commands give: each joins a process group on gloo and adds up
the ranks. Fully sharded training, DeepSpeed and a checkpoint: test_run_fsdp.py, test_run_commands.py.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = [pytest.mark.lab, pytest.mark.train, pytest.mark.timeout(900)]

TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
model(torch.ones(2, 4)).pow(2).mean().backward()
names = ("LOCAL_RANK", "NODE_RANK", "CUDA_DEVICE_MAX_CONNECTIONS", "OMP_NUM_THREADS")
told = [os.environ.get(name, "") for name in names]
place = os.path.basename(os.getcwd())
here = ("rank", dist.get_rank(), "of", dist.get_world_size(), "sum", int(total))
print(*here, *told, place, sys.argv[1:], flush=True)
dist.destroy_process_group()
time.sleep(0.5)  # gloo's threads still need the interpreter
"""
FABRIC = (
    """
import os, sys
assert os.environ["LT_CLI_USED"] == "1" and os.environ["LT_NUM_NODES"] == "2"
"""
    + TRAIN
)
# A wrapper as llamafactory-cli, swift and xtuner are: it starts torchrun with the counts that it finds.
WRAPPER = f"""#!{sys.executable}
import os, subprocess, sys
env = os.environ
words = ("--nnodes", env["NNODES"], "--node_rank", env["NODE_RANK"])
words += ("--nproc_per_node", env["NPROC_PER_NODE"])
words += ("--master_addr", env["MASTER_ADDR"], "--master_port", env["MASTER_PORT"])
argv = (sys.executable, "-m", "torch.distributed.run", *words, env["TRAINER"], *sys.argv[1:])
sys.exit(subprocess.call(argv))
"""
# torchtune's: the parser of torchrun, and a rendezvous of its own unless an endpoint is given.
TUNE = f"""#!{sys.executable}
import os, sys
from torch.distributed.run import get_args_parser, run
assert sys.argv.pop(1) == "run"
args = get_args_parser().parse_args()
args.standalone = not args.rdzv_endpoint
args.training_script = os.environ["TRAINER"]
run(args)
"""
PROGRAMS = {"xtuner": WRAPPER, "swift": WRAPPER, "llamafactory-cli": WRAPPER, "tune": TUNE}
ON_PATH = {"PATH": "/root/public/bin:/usr/local/bin:/usr/bin:/bin", "TRAINER": "/root/public/train.py"}

COMMANDS = {
    "nanoGPT": "torchrun --standalone --nproc_per_node=2 train.py config/train_gpt2.py",
    "yolov5": """python -m torch.distributed.run --nproc_per_node 2 --master_port 29511 segment/train.py \
        --data coco128-seg.yaml --weights yolov5s-seg.pt --img 640 --device 0,1""",
    "mae": """OMP_NUM_THREADS=1 python -m torch.distributed.launch --nproc_per_node=2 main_finetune.py \
        --accum_iter 4""",
    "nanotron": """export CUDA_DEVICE_MAX_CONNECTIONS=1 # important
        torchrun --nproc_per_node=2 examples/custom-dataloader/run_train.py --config-file c.yaml""",
    "nanochat": """OMP_NUM_THREADS=1 torchrun --standalone --nproc_per_node=2 -m scripts.base_train -- \
        --depth=26""",
    "ColossalAI": "colossalai run --nproc_per_node 1 train.py",
    "llm-foundry": """cd llm-foundry/scripts/train
        composer -n 1 train.py finetune_example/gpt2-arc-easy--cpu.yaml""",
    "torchtune": """tune run --nnodes 1 --nproc_per_node 2 lora_finetune_distributed \
        --config llama2/7B_lora""",
    "ms-swift": "NPROC_PER_NODE=2 \\\nswift sft \\\n    --model Qwen/Qwen2-7B-Instruct --tuner_type lora",
    "xtuner": "cd ./examples/demo_data/pretrain\nxtuner train config.py",
    "LLaMA-Factory": "llamafactory-cli train examples/train_lora/llama3_lora_sft.yaml",
    "FastChat": "deepspeed --num_gpus 1 fastchat/train/train_lora_t5.py --q_lora True",
    "Lightning": "fabric run --accelerator=cpu --devices=1 --num-nodes=2 fabric_train.py",
    "pytorch-examples": "srun torchrun --nnodes 1 --nproc_per_node 1 multinode_torchrun.py 50 10",
    "srun-bash": """export CUDA_DEVICE_MAX_CONNECTIONS=1
        srun -N 2 bash -c 'python3 -m torch.distributed.launch --nproc_per_node 2 main_finetune.py a'""",
    "accelerate": """accelerate launch --cpu --num_machines 2 --num_processes 2 --machine_rank 0 \
        nlp_example.py""",
}
"""By project (srun-bash is ours). Counts are smaller than on the page where 16 ranks would only take time."""


@pytest.fixture
def cli(tmp_path: Path, lab: Lab) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    project = cli.home / "project"
    scripts: tuple[str, ...] = (
        "train.py",
        "segment/train.py",
        "main_finetune.py",
        "scripts/base_train.py",
        "nlp_example.py",
    )
    scripts += ("examples/custom-dataloader/run_train.py", "llm-foundry/scripts/train/train.py")
    scripts += ("fastchat/train/train_lora_t5.py", "multinode_torchrun.py")
    files = {**dict.fromkeys(scripts, TRAIN), "fabric_train.py": FABRIC, "scripts/__init__.py": ""}
    files |= {"examples/demo_data/pretrain/config.py": ""}
    files |= {f"bin/{name}": text for name, text in PROGRAMS.items()}
    for name, text in files.items():
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for name in PROGRAMS:
        (project / "bin" / name).chmod(0o755)
    yield cli
    cli.close()
    for host in lab.hosts:
        host.run(["rm", "-rf", "/root/public"])


@pytest.mark.parametrize("project", COMMANDS)
def test_a_public_command_runs_on_two_hosts(cli: Cli, project: str) -> None:
    keys = {"sync": {"from": "project"}, "workdir": "/root/public", "precision": "no", "env": ON_PATH}
    (cli.home / "job.yaml").write_text(json.dumps({"command": COMMANDS[project], **keys}))
    code, output = cli.run(",".join(host.name for host in cli.lab.hosts[:2]), timeout_s=600.0)
    assert code == 0, output
    world = output.count(" sum ")
    assert world in (2, 4), output
    for rank in range(world):
        assert f"rank {rank} of {world} sum {world * (world + 1) // 2} " in output
    assert "no process of the run is left on any host" in output
    said = {
        "llm-foundry": "rank 1 of 2 sum 3 0 1 ",  # NODE_RANK
        "xtuner": " pretrain ['train', 'config.py']",
        "nanochat": "['--', '--depth=26']",
        "FastChat": "['--local_rank=0', '--q_lora', 'True']",
        "srun-bash": "['--local-rank=1', 'a']",
        "torchtune": "['--config', 'llama2/7B_lora']",
    }
    assert said.get(project, "sum") in output
