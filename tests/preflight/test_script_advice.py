"""What a finding says to write has the script's own names, fits what its ranks are made with, and ends it.

Each row has a fault, the advice for it, and the same lines after somebody has typed the advice.
"""

from dataclasses import replace

import pytest

from preflight.script.lint import lint, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget
from tests.preflight.script_parts import DDP, STEP

_ACCELERATE = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
acc = Accelerator(mixed_precision="fp16")
net = torch.nn.Linear(4, 4)
opt = torch.optim.AdamW(net.parameters())
items = DataLoader(list(range(64)), batch_size=4, shuffle=True)
"""
_ACCELERATED_STEP = """
for batch in items:
    total = net(batch).sum()
    acc.backward(total)
    opt.step()
    opt.zero_grad()
"""
_SCALED = """
import torch
class Learner:
    def __init__(self, net):
        self.net, self.scaler = torch.nn.Linear(4, 4), torch.amp.GradScaler("cuda")
        self.solver = torch.optim.AdamW(self.net.parameters())
    def fit(self, batches):
        for batch in torch.utils.data.DataLoader(range(9)):
            self.solver.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.net(batch.cuda()).sum()
            self.scaler.scale(loss).backward()
            CLIP
            STEP
net = Learner(None)
net.fit(None)
"""
_CLIPPED = _SCALED.replace("STEP", "self.scaler.step(self.solver); self.scaler.update()")
_NORM = "torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)"
_UNCLIPPED = _SCALED.replace("            CLIP\n", "")
_STREAM = """
class Lines(IterableDataset):
    def __iter__(self):
        with open("a.txt") as lines:
            yield from lines
"""
_OPTIONAL_GROUP = """
import os, torch
import torch.distributed as dist
ranks = int(os.environ.get("WORLD_SIZE", 1))
if ranks > 1:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""
_LOSSES = """
import torch
net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters())
total = torch.zeros(1)
for batch in torch.utils.data.DataLoader(range(9)):
    opt.zero_grad()
    loss = net(batch).sum()
    loss.backward()
    opt.step()
"""
_QUANTIZED = """
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
bits = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("m", quantization_config=bits, WHERE)
Trainer(model=model, args=TrainingArguments("o")).train()
"""
_BF16 = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--half", default="bf16")
args = parser.parse_args()
kind = torch.float16 if args.half == "fp16" else torch.bfloat16
net = torch.nn.Linear(4, 4).cuda()
opt = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cuda"ENABLED)
for batch in torch.utils.data.DataLoader(range(9)):
    with torch.autocast("cuda", dtype=kind):
        loss = net(batch.cuda()).sum()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""

ADVICE: dict[str, tuple[str, str, str, str, str]] = {
    "a loader of ranks has its own dataset": (
        "R401",
        DDP + "items = DataLoader(range(64), batch_size=4, shuffle=True)\nfor epoch in range(9):\n"
        "  for batch in items:" + STEP,
        (
            "sampler=DistributedSampler(range(64)) in place of shuffle=True; "
            "items.sampler.set_epoch(epoch) before each epoch"
        ),
        "shuffle=True)\nfor epoch in range(9):\n",
        "sampler=DistributedSampler(range(64)))\nfor epoch in range(9):\n  items.sampler.set_epoch(epoch)\n",
    ),
    "accelerate divides a loader itself": (
        "R401",
        _ACCELERATE + "net, opt = acc.prepare(net, opt)" + _ACCELERATED_STEP,
        "items = acc.prepare(items)",
        "net, opt = acc.prepare(net, opt)",
        "net, opt = acc.prepare(net, opt)\nitems = acc.prepare(items)",
    ),
    "a sampler is nothing for an IterableDataset": (
        "R401",
        DDP + _STREAM + "for batch in DataLoader(Lines()):" + STEP,
        "itertools.islice(items, dist.get_rank(), None, dist.get_world_size()) in __iter__",
        "yield from lines",
        "yield from __import__('itertools').islice(lines, dist.get_rank(), None, dist.get_world_size())",
    ),
    "the number of a GPU is that of the rank in its node": (
        "D204",
        _QUANTIZED.replace("WHERE", "device_map='auto'"),
        'remove device_map, or device_map={"": PartialState().local_process_index}',
        "device_map='auto'",
        'device_map={"": __import__("accelerate").PartialState().local_process_index}',
    ),
    "a device keeps its other branch": (
        "D201",
        (
            "import os, torch\nfrom accelerate import PartialState\n"
            'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n'
            "net = torch.nn.Linear(2, 2).to(device)\n"
        ),
        'f"cuda:{os.environ.get(\'LOCAL_RANK\', 0)}" in place of "cuda:0"',
        '"cuda:0"',
        "f\"cuda:{os.environ.get('LOCAL_RANK', 0)}\"",
    ),
    "a device of an option keeps its other branch": (
        "D201",
        (
            "import argparse, os, torch\nfrom accelerate import PartialState\n"
            "parser = argparse.ArgumentParser()\n"
            'parser.add_argument("--gpu", type=int, default=0)\ngiven = parser.parse_args()\n'
            'device = torch.device(f"cuda:{given.gpu}" if torch.cuda.is_available() else "cpu")\n'
            "net = torch.nn.Linear(2, 2).to(device)\n"
        ),
        'f"cuda:{os.environ.get(\'LOCAL_RANK\', 0)}" in place of f"cuda:{given.gpu}"',
        'f"cuda:{given.gpu}"',
        "f\"cuda:{os.environ.get('LOCAL_RANK', 0)}\"",
    ),
    "a device that a format makes has a rank in one process too": (
        "D201",
        "import os, torch\nfrom accelerate import PartialState\ntorch.cuda.set_device(0)\n",
        "int(os.environ.get('LOCAL_RANK', 0))",
        "set_device(0)",
        "set_device(int(os.environ.get('LOCAL_RANK', 0)))",
    ),
    "one process has no group to ask": (
        "R405",
        _OPTIONAL_GROUP + 'torch.save({}, "a.pt")\n',
        'if int(os.environ.get("RANK", 0)) == 0: before it',
        "torch.save",
        'if int(os.environ.get("RANK", 0)) == 0: torch.save',
    ),
    "a group that is made in any case is asked": (
        "R405",
        DDP + 'torch.save({}, "a.pt")\n',
        "if torch.distributed.get_rank() == 0: before it",
        "torch.save",
        "if torch.distributed.get_rank() == 0: torch.save",
    ),
    "gradients of this optimizer": (
        "P116",
        _CLIPPED.replace("CLIP", _NORM),
        "self.scaler.unscale_(self.solver) before it",
        _NORM,
        f"self.scaler.unscale_(self.solver); {_NORM}",
    ),
    "accelerate clips with what the script gives": (
        "P116",
        _ACCELERATE
        + "net, opt, items = acc.prepare(net, opt, items)"
        + _ACCELERATED_STEP.replace(
            "    opt.step", "    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)\n    opt.step"
        ),
        "acc.clip_grad_norm_(net.parameters(), 0.5)",
        "torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)",
        "acc.clip_grad_norm_(net.parameters(), 0.5)",
    ),
    "backward of this loss": (
        "P124",
        _ACCELERATE
        + "net, opt, items = acc.prepare(net, opt, items)"
        + _ACCELERATED_STEP.replace("acc.backward(total)", "(total / 2).backward(retain_graph=True)"),
        "acc.backward(total / 2, retain_graph=True)",
        "(total / 2).backward(retain_graph=True)",
        "acc.backward(total / 2, retain_graph=True)",
    ),
    "update of this scaler": (
        "P128",
        _UNCLIPPED.replace("STEP", "self.scaler.step(self.solver)"),
        "self.scaler.update() after it",
        "self.scaler.step(self.solver)",
        "self.scaler.step(self.solver); self.scaler.update()",
    ),
    "a plain step through this scaler": (
        "P129",
        _UNCLIPPED.replace("STEP", "self.solver.step()"),
        "self.scaler.step(self.solver); self.scaler.update()",
        "self.solver.step()",
        "self.scaler.step(self.solver); self.scaler.update()",
    ),
    "zero_grad() of this optimizer": (
        "P136",
        _LOSSES.replace("    opt.zero_grad()\n", ""),
        "opt.zero_grad() after it",
        "opt.step()",
        "opt.step(); opt.zero_grad()",
    ),
    "what is added stays a tensor": (
        "P139",
        _LOSSES + "    total += loss * 2\n",
        "(loss * 2).detach()",
        "total += loss * 2",
        "total += (loss * 2).detach()",
    ),
    "a scaler for a dtype that the script chooses": (
        "P144",
        _BF16.replace("ENABLED", ""),
        "GradScaler(enabled=kind == torch.float16), below what sets kind",
        '"cuda")\nfor',
        '"cuda", enabled=kind == torch.float16)\nfor',
    ),
    "fp16 and bf16 are not both on": (
        "P107",
        (
            "import torch\nfrom peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\n"
            "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
            'model = AutoModelForCausalLM.from_pretrained("m",\n'
            "    quantization_config=BitsAndBytesConfig(load_in_4bit=True))\n"
            'args = SFTConfig("o", fp16=True)\n'
            "SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=8)).train()\n"
        ),
        "bf16=True, fp16=False; without bf16 on the GPUs cast what trains to float32 behind the trainer",
        "fp16=True",
        "bf16=True",
    ),
    "a name of torch._six has its own successor": (
        "V304",
        "from torch._six import inf\nprint(inf)\n",
        "from torch import inf",
        "from torch._six import inf",
        "from torch import inf",
    ),
    "a keyword is near to another": (
        "V303",
        'import torch\nwith torch.autocast("cuda", data_type=torch.bfloat16):\n    pass\n',
        "dtype= in place of it, or remove data_type=",
        "data_type=",
        "dtype=",
    ),
    "what SFTConfig calls it": (
        "V301",
        "from trl import SFTTrainer\nSFTTrainer(model='m', tokenizer=None, max_seq_length=64).train()\n",
        "processing_class=, and max_length= of SFTConfig",
        "tokenizer=None, max_seq_length=64",
        "processing_class=None, args=__import__('trl').SFTConfig('o', max_length=64)",
    ),
    "the seed of sklearn": (
        "R410",
        DDP.replace("dist.init", "from sklearn.model_selection import train_test_split\ndist.init")
        + "mine, rest = train_test_split(range(64))\n"
        "for batch in DataLoader(mine, sampler=DistributedSampler(mine)):" + STEP,
        "random_state=0",
        "train_test_split(range(64))",
        "train_test_split(range(64), random_state=0)",
    ),
    "marks of a merge": (
        "P100",
        "x = 1\n<<<<<<< HEAD\nx = 2\n=======\nx = 3\n>>>>>>> other\n",
        "keep one side of the merge, and remove its <<<<<<<, ======= and >>>>>>>",
        "<<<<<<< HEAD\nx = 2\n=======\nx = 3\n>>>>>>> other\n",
        "x = 3\n",
    ),
    "async before it was a keyword": (
        "P100",
        "import torch\nx = torch.ones(1).cuda(async=True)\n",
        "non_blocking= in place of async=, which is a keyword from Python 3.7 on",
        "async=",
        "non_blocking=",
    ),
    "print of Python 2": (
        "P100",
        'print "a"\n',
        "write it for Python 3: this is Python 2",
        'print "a"',
        'print("a")',
    ),
    "a line too far in": (
        "P100",
        "x = 1\n  y = 2\n",
        "indent the line as the block that it belongs to",
        "  y",
        "y",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_that_is_typed_ends_the_finding_and_brings_none(name: str) -> None:
    code, fault, advice, wrong, right = ADVICE[name]
    before = lint(fault, "train.py").findings
    assert [item.fix for item in before if item.code == code and item.part_of is None] == [advice]
    assert fault.count(wrong) == 1
    after = lint(fault.replace(wrong, right), "train.py").findings
    was = {item.code for item in before if item.level is not Level.INFO}
    assert {item.code for item in after if item.level is not Level.INFO} <= was - {code}


_WRAPPED = """
import torch
from transformers import AutoModelForCausalLM
import torch.distributed as dist
dist.init_process_group("nccl")
net = AutoModelForCausalLM.from_pretrained("m")
WRAP
net.generate()
"""


def test_a_model_that_is_wrapped_on_one_path_is_asked_for_what_is_inside() -> None:
    plain = "net = torch.nn.parallel.DistributedDataParallel(net)"
    sometimes = f"if dist.get_world_size() > 0:\n    {plain}"
    fixes = [lint(_WRAPPED.replace("WRAP", wrap), "a.py").findings for wrap in (plain, sometimes)]
    assert [[item.fix for item in found if item.code == "C501"] for found in fixes] == [
        ["net.module.generate(...)"],
        ['getattr(net, "module", net).generate(...)'],
    ]


def test_a_configuration_that_options_make_has_options_for_its_precision() -> None:
    text = """
from trl import SFTConfig, SFTTrainer, TrlParser
(config,) = TrlParser((SFTConfig,)).parse_args_and_config()
SFTTrainer(model="gpt2", args=config, train_dataset=[]).train()
"""
    old = RankTarget(capability=(7, 5))
    typed = replace(old, args=("--bf16", "False", "--fp16", "True"))
    before, after = (lint_for(text, "a.py", [target], certain=True).findings for target in (old, typed))
    assert [item.fix for item in before if item.code == "P109"] == ["--bf16 False --fp16 True"]
    assert not {"P109", "P131"} & {item.code for item in after}


def test_ranks_that_a_script_starts_choose_a_port_and_no_other_address() -> None:
    started = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", rank=rank, world_size=2)
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
    launched = 'import torch.distributed as dist\ndist.init_process_group("nccl", init_method="tcp://a:1")\n'
    fixes = [
        {item.fix for item in lint(text, "a.py").findings if item.code == "D207"}
        for text in (started, launched)
    ]
    assert fixes == [{"a free port, chosen once before the ranks are started"}, {"leave init_method out"}]


def test_what_decides_a_number_or_a_default_is_named_as_it_is_written() -> None:
    number = (
        "import torch\nlocal_rank = 0\ntorch.cuda.set_device(local_rank)\n" + "torch.nn.Linear(4, 4).cuda()\n"
    )
    option = """
import argparse
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--mixed", default="bf16")
Accelerator(mixed_precision=parser.parse_args().mixed)
"""
    ranks = RankTarget(capability=(7, 5), processes=2)
    found = [
        item for text in (number, option) for item in lint_for(text, "a.py", [ranks], certain=True).findings
    ]
    assert {item.code: item.fix for item in found if item.level is Level.ERROR} == {
        "D201": "int(os.environ.get('LOCAL_RANK', 0))",
        "P131": "--mixed fp16",
    }
