"""Failures that can be made for real on a machine without a GPU: each a small script and how it is started."""

from collections.abc import Iterator
from dataclasses import dataclass

SCRIPT = "train.py"


@dataclass(frozen=True, slots=True)
class Kind:
    """A failure: the class that a diagnosis must give it, the script, and what surrounds its start.

    `ranks`: started by torchrun with that many. `shell`: a shell line in which {run} is the start command (for
    limits and mounts); `environ`: more environment. `prepare`: Python that writes files before.
    """

    name: str
    slug: str
    script: str
    ranks: int = 0
    shell: str = ""
    environ: tuple[tuple[str, str], ...] = ()
    prepare: str = ""
    torchrun: tuple[str, ...] = ()
    timeout_s: int = 120


_TRAIN = """\
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} | loss {loss.item():.4f}", flush=True)
"""
_DDP = """\
import os, signal, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
for step in range(4):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    if rank == 0:
        print(f"step {step} | loss {loss.item():.4f}", flush=True)
"""
_TINY_MODEL = """\
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2))
"""
_LFS = "version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a2146\\nsize 4976698672\\n"


def kinds() -> Iterator[Kind]:
    """Yield every failure."""
    yield from _precision()
    yield from _meeting()
    yield from _ends()
    yield from _resources()
    yield from _files()
    yield from _software()
    yield from _own()


def _precision() -> Iterator[Kind]:
    yield Kind(
        "unscale",
        "fp16-unscale",
        """\
import torch
model = torch.nn.Linear(8, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
loss = model(torch.randn(4, 8).half()).float().mean()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
""",
    )
    yield Kind(
        "unscale-accelerate",
        "fp16-unscale",
        """\
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
accelerator.scaler = torch.amp.GradScaler("cpu")
accelerator.native_amp = True
accelerator.state._mixed_precision = "fp16"
model = torch.nn.Linear(8, 1).half()
optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters()))
accelerator.backward(model(torch.randn(4, 8).half()).float().mean())
accelerator.clip_grad_norm_(model.parameters(), 1.0)
""",
    )
    yield Kind(
        "clipped-twice",
        "scaler-misuse",
        """\
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.randn(4, 8)).mean()).backward()
scaler.unscale_(optimizer)
scaler.unscale_(optimizer)
""",
    )
    yield Kind(
        "no-inf-checks",
        "scaler-misuse",
        """\
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(torch.randn(1))
scaler.step(optimizer)
""",
    )
    yield Kind(
        "late-cast",
        "dtype-mismatch",
        _TRAIN
        + """\
model.to(torch.bfloat16)
model(torch.randn(4, 8).bfloat16()).float().mean().backward()
optimizer.step()
""",
    )
    yield Kind(
        "mixed-matmul",
        "dtype-mismatch",
        """\
import torch
model = torch.nn.Linear(8, 1).bfloat16()
model(torch.randn(4, 8))
""",
    )
    yield Kind(
        "conv-input",
        "dtype-mismatch",
        """\
import torch
torch.nn.Conv2d(3, 4, 3).half()(torch.randn(1, 3, 8, 8))
""",
    )
    yield Kind(
        "half-kernel",
        "dtype-mismatch",
        """\
import torch
torch.linalg.svd(torch.randn(4, 4).half())
""",
    )
    yield Kind(
        "index-put",
        "dtype-mismatch",
        """\
import torch
merged = torch.zeros(4, 8, dtype=torch.bfloat16)
merged[torch.tensor([True, False, True, False])] = torch.randn(2, 8)
""",
    )
    yield Kind(
        "fp16-and-bf16",
        "precision-conflict",
        """\
from transformers import TrainingArguments
TrainingArguments(output_dir="out", fp16=True, bf16=True, use_cpu=True)
""",
    )
    yield Kind(
        "two-accelerators",
        "precision-conflict",
        """\
from accelerate import Accelerator
Accelerator(cpu=True)
Accelerator(cpu=True, mixed_precision="bf16")
""",
    )
    yield Kind(
        "frozen",
        "no-gradient",
        """\
import torch
model = torch.nn.Linear(8, 1).requires_grad_(False)
model(torch.randn(4, 8)).mean().backward()
""",
    )
    yield Kind(
        "anomaly",
        "nan-loss",
        """\
import torch
with torch.autograd.detect_anomaly(check_nan=True):
    weight = torch.zeros(1, requires_grad=True)
    (torch.sqrt(weight) * 0 / 0).sum().backward()
""",
    )
    yield Kind(
        "diverges",
        "nan-loss",
        """\
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
for step in range(30):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30)
    optimizer.step()
    optimizer.zero_grad()
    print(f"iter {step}: loss {loss.item():.4f}, grad norm {norm:.2f}", flush=True)
""",
    )
    yield Kind(
        "flash-attention-missing",
        "flash-attn-unsupported",
        """\
from transformers import LlamaConfig, LlamaForCausalLM
LlamaForCausalLM._from_config(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2), attn_implementation="flash_attention_2")
""",
    )


def _meeting() -> Iterator[Kind]:
    holder = """\
import socket, os
holder = socket.socket(); holder.bind(("", 0)); holder.listen()
port = holder.getsockname()[1]
"""
    yield Kind(
        "port-taken",
        "port-in-use",
        holder
        + """\
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo")
""",
    )
    yield Kind(
        "port-taken-accelerate",
        "port-in-use",
        holder
        + """\
import subprocess, sys
from accelerate.commands.launch import launch_command_parser, launch_command
args = launch_command_parser().parse_args(["--multi_gpu", "--num_processes", "2", "--main_process_port", str(port), "x.py"])
launch_command(args)
""",
    )
    yield Kind(
        "port-taken-torchrun",
        "port-in-use",
        holder
        + """\
import subprocess, sys
open("inner.py", "w").write("print(1)")
sys.exit(subprocess.call([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port",
    str(port), "inner.py"]))
""",
    )
    yield Kind(
        "rank-0-unreachable",
        "rendezvous-timeout",
        """\
import os, datetime
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29677", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
""",
    )
    yield Kind(
        "rank-1-absent",
        "rendezvous-timeout",
        """\
import os, datetime
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29678", RANK="0", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
""",
    )
    yield Kind(
        "node-absent",
        "rendezvous-timeout",
        "print(1)\n",
        ranks=1,
        torchrun=(
            "--nnodes",
            "2",
            "--rdzv_backend",
            "c10d",
            "--rdzv_endpoint",
            "127.0.0.1:29679",
            "--rdzv_conf",
            "join_timeout=4",
        ),
    )
    yield Kind(
        "bad-address",
        "rendezvous-timeout",
        """\
import os, datetime
import torch.distributed as dist
os.environ.update(MASTER_ADDR="no-such-host.invalid", MASTER_PORT="29681", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
""",
    )
    yield Kind(
        "bad-interface", "nccl-system-error", _DDP, ranks=2, environ=(("GLOO_SOCKET_IFNAME", "nope0"),)
    )
    yield Kind(
        "monitored-barrier",
        "collective-mismatch",
        """\
import datetime, time
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=3))
time.sleep(5)
""",
        ranks=2,
    )
    yield Kind(
        "mismatched-collectives",
        "collective-mismatch",
        """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
size = 4 if dist.get_rank() == 0 else 8
dist.all_reduce(torch.ones(size))
""",
        ranks=2,
        environ=(("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),),
    )
    yield Kind(
        "unused-parameters",
        "ddp-unused-parameters",
        """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.aux = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.used(x)
model = torch.nn.parallel.DistributedDataParallel(Net())
for step in range(3):
    model(torch.randn(4, 8)).mean().backward()
""",
        ranks=2,
    )
    yield Kind(
        "nccl-without-gpu",
        "driver-mismatch",
        """\
import torch.distributed as dist
dist.init_process_group("nccl")
""",
        ranks=1,
    )


def _ends() -> Iterator[Kind]:
    for number, slug in ((9, "host-oom-killed"), (11, "segfault"), (6, "sigabrt"), (7, "shm")):
        yield Kind(
            f"signal-{number}",
            slug,
            _DDP + f"    if step == 2 and rank == 1:\n        os.kill(os.getpid(), {number})\n",
            ranks=2,
        )
    yield Kind(
        "null-pointer",
        "segfault",
        _TRAIN + "import ctypes\nctypes.string_at(0)\n",
        shell="{run}; echo exit code $?",
    )
    yield Kind(
        "faulthandler",
        "segfault",
        "import faulthandler\nfaulthandler.enable()\n" + _TRAIN + "import ctypes\nctypes.string_at(0)\n",
    )
    yield Kind(
        "bad-free",
        "sigabrt",
        _TRAIN
        + """\
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = libc.malloc(64)
libc.free(ctypes.c_void_p(block + 8))
""",
        shell="{run}; echo exit code $?",
    )
    yield Kind(
        "spawn-abort",
        "sigabrt",
        """\
import os, sys
import torch.multiprocessing as mp
def work(rank):
    if rank == 1:
        os.abort()
    import time; time.sleep(30)
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
""",
    )
    yield Kind(
        "launcher-hangup",
        "sighup",
        _DDP + "    if step == 2 and rank == 0:\n        os.kill(os.getppid(), 1)\n    time.sleep(0.5)\n"
        "time.sleep(20)\n",
        ranks=2,
    )
    yield Kind(
        "launcher-terminated",
        "terminated",
        _DDP + "    if step == 2 and rank == 0:\n        os.kill(os.getppid(), 15)\n"
        "    time.sleep(0.5)\ntime.sleep(20)\n",
        ranks=2,
    )


def _resources() -> Iterator[Kind]:
    yield Kind(
        "address-space",
        "host-oom-killed",
        _TRAIN + "torch.ones(1 << 36)\n",
        shell="ulimit -v 16000000; {run}",
    )
    yield Kind(
        "numpy-memory",
        "host-oom-killed",
        "import numpy as np\nnp.ones((1 << 38,))\n",
        shell="ulimit -v 8000000; {run}",
    )
    loader = """\
import torch
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.randn(3, 256, 256)
if __name__ == "__main__":
    kept = []
    for batch in DataLoader(Images(), batch_size=8, num_workers=2):
        kept.append(batch)
    print("epoch 0 done", flush=True)
"""
    yield Kind(
        "shm-full",
        "shm",
        loader,
        shell="unshare -m sh -c 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec {run}'",
    )
    yield Kind(
        "open-files",
        "too-many-open-files",
        loader.replace("batch_size=8", "batch_size=1"),
        shell="ulimit -n 40; {run}",
    )
    yield Kind(
        "open-files-plain",
        "too-many-open-files",
        "kept = [open(__file__) for _ in range(200)]\n",
        shell="ulimit -n 60; {run}",
    )
    full = "unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m tmpfs small && exec {run}'"
    yield Kind(
        "disk-torch",
        "disk-full",
        _TRAIN + "torch.save({'w': torch.randn(1 << 20)}, 'small/checkpoint.pt')\n",
        shell=full,
    )
    yield Kind(
        "disk-safetensors",
        "disk-full",
        _TRAIN + "from safetensors.torch import save_file\n"
        "save_file({'w': torch.randn(1 << 20)}, 'small/model.safetensors')\n",
        shell=full,
    )
    yield Kind(
        "disk-text",
        "disk-full",
        "with open('small/metrics.jsonl', 'w') as log:\n    while True:\n        log.write('x' * 65536)\n",
        shell=full,
    )
    yield Kind(
        "disk-numpy",
        "disk-full",
        "import numpy as np\nnp.save('small/embeddings.npy', np.zeros(1 << 20))\n",
        shell=full,
    )
    yield Kind(
        "read-only",
        "storage",
        _TRAIN + "torch.save({'w': 1}, 'small/a.pt')\n",
        shell="unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=1m,ro tmpfs small && exec {run}'",
    )


def _files() -> Iterator[Kind]:
    yield Kind(
        "cut-checkpoint",
        "bad-checkpoint",
        "import torch\ntorch.load('checkpoint.pt')\n",
        prepare="""\
import torch
torch.save({"w": torch.randn(1000)}, "checkpoint.pt")
data = open("checkpoint.pt", "rb").read()
open("checkpoint.pt", "wb").write(data[: len(data) // 2])
""",
    )
    yield Kind(
        "empty-checkpoint",
        "bad-checkpoint",
        "import torch\ntorch.load('checkpoint.pt')\n",
        prepare='open("checkpoint.pt", "w")',
    )
    yield Kind(
        "lfs-checkpoint",
        "bad-checkpoint",
        "import torch\ntorch.load('pytorch_model.bin')\n",
        prepare=f'open("pytorch_model.bin", "w").write("{_LFS}")',
    )
    yield Kind(
        "lfs-safetensors",
        "bad-checkpoint",
        "from safetensors.torch import load_file\nload_file('model.safetensors')\n",
        prepare=f'open("model.safetensors", "w").write("{_LFS}")',
    )
    yield Kind(
        "cut-safetensors",
        "bad-checkpoint",
        "from safetensors.torch import load_file\nload_file('model.safetensors')\n",
        prepare="""\
import torch
from safetensors.torch import save_file
save_file({"w": torch.randn(1000)}, "model.safetensors")
data = open("model.safetensors", "rb").read()
open("model.safetensors", "wb").write(data[: len(data) // 2])
""",
    )
    yield Kind(
        "weights-only",
        "bad-checkpoint",
        "import torch\ntorch.load('checkpoint.pt')\n",
        prepare="""\
import argparse, torch
torch.save({"args": argparse.Namespace(lr=1)}, "checkpoint.pt")
""",
    )
    yield Kind(
        "other-model",
        "bad-checkpoint",
        "import torch\ntorch.nn.Linear(8, 2).load_state_dict(torch.nn.Linear(4, 2).state_dict())\n",
    )
    yield Kind("missing-keys", "bad-checkpoint", "import torch\ntorch.nn.Linear(8, 2).load_state_dict({})\n")
    yield Kind(
        "tokenizer-broken",
        "bad-checkpoint",
        "from transformers import AutoTokenizer\nAutoTokenizer.from_pretrained('model')\n",
        prepare="""\
import json, os
os.mkdir("model")
json.dump({"model_type": "llama"}, open("model/config.json", "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, open("model/tokenizer_config.json", "w"))
open("model/tokenizer.json", "w").write('{"version": "1.0", "model": {"type": "BPE", "vocab"')
""",
    )
    yield Kind(
        "tokenizer-other-version",
        "bad-checkpoint",
        "from tokenizers import Tokenizer\nTokenizer.from_file('tokenizer.json')\n",
        prepare="""open("tokenizer.json", "w").write('{"version": "1.0", "model": {"type": "NewKind", "vocab": {}}}')""",
    )
    yield Kind(
        "no-weights",
        "bad-checkpoint",
        "from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_pretrained('model')\n",
        prepare="""\
import json, os
os.mkdir("model")
json.dump({"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "num_attention_heads": 2}, open("model/config.json", "w"))
""",
    )
    offline = (("HF_HUB_OFFLINE", "1"), ("HF_HOME", "empty-cache"))
    yield Kind(
        "hub-offline",
        "hf-hub-auth",
        "from transformers import AutoTokenizer\nAutoTokenizer.from_pretrained('bigscience/bloom-560m')\n",
        environ=offline,
    )
    yield Kind(
        "hub-offline-download",
        "hf-hub-auth",
        "from huggingface_hub import snapshot_download\nsnapshot_download('gpt2')\n",
        environ=offline,
    )
    yield Kind(
        "hub-unreachable",
        "hf-hub-auth",
        "from transformers import AutoConfig\nAutoConfig.from_pretrained('openai-community/gpt2')\n",
        environ=(
            ("HF_HOME", "empty-cache"),
            ("HTTPS_PROXY", "http://127.0.0.1:9"),
            ("HF_HUB_ETAG_TIMEOUT", "2"),
        ),
        timeout_s=180,
    )
    yield Kind(
        "no-local-model",
        "missing-file",
        "from transformers import AutoModel\nAutoModel.from_pretrained('/data/models/llama')\n",
    )
    yield Kind(
        "unknown-model",
        "unknown-architecture",
        "from transformers import AutoModel\nAutoModel.from_pretrained('model')\n",
        prepare="""\
import json, os
os.mkdir("model")
json.dump({"model_type": "llama9"}, open("model/config.json", "w"))
""",
    )
    yield Kind("no-data", "missing-file", "print(open('data/train.jsonl').read())\n")
    yield Kind("no-script", "missing-file", "", shell="{python} nowhere.py")


def _software() -> Iterator[Kind]:
    yield Kind("missing-module", "missing-module", _TRAIN + "import flashinfer_not_here\n")
    yield Kind("missing-name", "missing-module", "from transformers import AdamW\n")
    yield Kind(
        "missing-deepspeed",
        "missing-module",
        "from accelerate import Accelerator, DeepSpeedPlugin\n"
        "Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=2))\n",
    )
    yield Kind(
        "missing-bitsandbytes",
        "missing-module",
        _TINY_MODEL.replace("model = ", "m = ") + "from transformers import BitsAndBytesConfig\n"
        "m.save_pretrained('tiny')\nLlamaForCausalLM.from_pretrained('tiny', quantization_config=BitsAndBytesConfig(load_in_4bit=True))\n",
    )
    yield Kind(
        "renamed-argument",
        "deprecated-tokenizer-arg",
        "from transformers import TrainingArguments\n"
        "TrainingArguments(output_dir='out', evaluation_strategy='epoch')\n",
    )
    yield Kind(
        "removed-argument",
        "deprecated-tokenizer-arg",
        "from transformers import Trainer, TrainingArguments\n"
        + _TINY_MODEL
        + "Trainer(model=model, args=TrainingArguments(output_dir='out', report_to='none'), tokenizer=None)\n",
    )
    yield Kind(
        "removed-8bit",
        "deprecated-tokenizer-arg",
        "from transformers import LlamaForCausalLM\n"
        + _TINY_MODEL
        + "model.save_pretrained('tiny')\nLlamaForCausalLM.from_pretrained('tiny', load_in_8bit=True)\n",
    )
    yield Kind(
        "no-compiler",
        "inductor-compile",
        "import torch\ntorch.compile(lambda x: (x.sin() + x.cos()).sum())(torch.randn(64))\n",
        environ=(
            ("CXX", "/nonexistent/g++"),
            ("TORCHINDUCTOR_CACHE_DIR", "cache"),
            ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"),
        ),
    )
    yield Kind(
        "broken-compiler",
        "inductor-compile",
        "import torch\ntorch.compile(lambda x: (x.sin() + x.cos()).sum())(torch.randn(64))\n",
        environ=(
            ("CXX", "/bin/false"),
            ("TORCHINDUCTOR_CACHE_DIR", "cache"),
            ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"),
        ),
    )
    yield Kind("no-cuda", "driver-mismatch", _TRAIN + "model.cuda()\n")
    yield Kind(
        "cuda-checkpoint",
        "driver-mismatch",
        "import torch\ntorch.load('checkpoint.pt')\n",
        prepare="""\
import torch
torch.save({"w": torch.randn(4)}, "checkpoint.pt")
import zipfile
inside = zipfile.ZipFile("checkpoint.pt")
with zipfile.ZipFile("changed.pt", "w", zipfile.ZIP_STORED) as changed:
    for name in inside.namelist():
        changed.writestr(name, inside.read(name).replace(b"X\\x03\\x00\\x00\\x00cpu", b"X\\x06\\x00\\x00\\x00cuda:0"))
import os
os.replace("changed.pt", "checkpoint.pt")
""",
    )


def _own() -> Iterator[Kind]:
    yield Kind("key-error", "user-exception", _TRAIN + "batch = {'text': 1}\nprint(batch['labels'])\n")
    yield Kind(
        "key-error-rank-1",
        "user-exception",
        _DDP + "    if step == 2 and rank == 1:\n        raise KeyError('labels')\n",
        ranks=2,
    )
    yield Kind(
        "worker-error",
        "user-exception",
        """\
import torch
from torch.utils.data import DataLoader, Dataset
class Texts(Dataset):
    def __len__(self): return 16
    def __getitem__(self, index): return {"a": torch.ones(1)}["caption" if index == 9 else "a"]
if __name__ == "__main__":
    for batch in DataLoader(Texts(), num_workers=2):
        pass
""",
    )
    yield Kind(
        "spawn-error",
        "user-exception",
        """\
import torch.multiprocessing as mp
def work(rank):
    raise ValueError(f"bad shard {rank}")
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
""",
    )
    yield Kind(
        "pool-error",
        "user-exception",
        """\
from multiprocessing import Pool
def work(item):
    return 1 / item
if __name__ == "__main__":
    with Pool(2) as pool:
        pool.map(work, [1, 2, 0])
""",
    )
    yield Kind(
        "chained",
        "user-exception",
        """\
def load(path):
    try:
        return {}[path]
    except KeyError as error:
        raise ValueError(f"no split called {path}") from error
load("train")
""",
    )
    yield Kind(
        "usage",
        "user-exception",
        "import argparse\nparser = argparse.ArgumentParser()\nparser.parse_args(['--lr', '1'])\n",
    )
    yield Kind("syntax", "user-exception", "def train(:\n    pass\n")
    yield Kind(
        "all-frozen",
        "user-exception",
        """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).requires_grad_(False))
""",
        ranks=2,
    )
    yield Kind("shape-error", "user-exception", "import torch\ntorch.nn.Linear(8, 2)(torch.randn(4, 9))\n")
    yield Kind("trains", "benign", _TRAIN + "print('training done')\n")
    # The pause is for gloo's threads: those that still need the GIL while the interpreter ends abort it.
    yield Kind("trains-ddp", "benign", _DDP + "dist.destroy_process_group(); time.sleep(0.5)\n", ranks=2)
    yield Kind(
        "trains-forked",
        "benign",
        """\
import os
from tokenizers import Tokenizer, models
tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
tokenizer.encode_batch(["a"] * 2000)
from torch.utils.data import DataLoader
class Texts(list):
    def __getitem__(self, index): return len(tokenizer.encode_batch(["a"] * 4))
for batch in DataLoader(Texts(range(8)), num_workers=2):
    pass
print("step 1 | loss 0.5")
""",
    )
    yield Kind(
        "handled",
        "benign",
        _TRAIN
        + """\
import traceback
try:
    raise ConnectionError("tracker did not answer")
except ConnectionError:
    traceback.print_exc()
print("metrics stay here", flush=True)
for step in range(4):
    print(f"2026-11-21 03:00:0{step} | INFO | step {step} loss 0.{step}12", flush=True)
print("Training completed.")
""",
    )
