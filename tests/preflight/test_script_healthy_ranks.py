"""Forms of scripts whose ranks do all that they must, which the rules of ranks had blamed."""

import pytest

from preflight.script.lint import lint, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget
from tests.preflight.script_parts import DDP

HEALTHY = {
    "what all ranks made whole, which rank 0 hands through the same helper": DDP
    + """
def to_cpu(value):
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return value.detach().cpu()
def save(model):
    whole = {name: to_cpu(p) for name, p in model.named_parameters()}
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save({name: to_cpu(p) for name, p in whole.items()}, "net.pt")
save(net)
""",
    "the average of rank 0, which it alone reads back": DDP
    + """
from copy import deepcopy
ema = None
if dist.get_rank() == 0:
    ema = deepcopy(net.module).eval()
read = torch.load("net.pt", map_location="cpu")
net.module.load_state_dict(read["net"])
opt.load_state_dict(read["opt"])
if ema is not None:
    ema.load_state_dict(read["ema"])
for batch in DataLoader(range(64), sampler=DistributedSampler(range(64))):
    net(batch.cuda()).sum().backward()
    opt.step()
    opt.zero_grad()
""",
    "a model whose own train() leaves a part in eval()": """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
        self.head = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    def forward(self, x):
        return self.head(self.encoder(x))
    def train(self, mode=True):
        if self.fixed:
            self.head.train(mode)
        else:
            super().train(mode)
def show(net):
    net.eval()
    with torch.no_grad():
        print(net(torch.rand(2, 8).cuda()))
def main(args):
    net = Net(args.fixed).cuda()
    net.train()
    opt = torch.optim.AdamW(net.parameters())
    for turn in range(8):
        net.train()
        net(torch.rand(2, 8).cuda()).sum().backward()
        opt.step()
        opt.zero_grad()
        if turn % args.every == 0:
            show(net)
main(read_args())
""",
    "what all ranks' features show beside the loss of the own, for the log": DDP
    + """
def gather(features):
    parts = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    return torch.cat(parts)
criterion = torch.nn.CrossEntropyLoss()
def train(loader):
    for x in loader:
        a, b = net(x.cuda()), net(-x.cuda())
        loss = criterion(a @ b.t(), torch.arange(len(a), device="cuda"))
        loss.backward()
        opt.step()
        opt.zero_grad()
        firsts = gather(a.detach())
        seconds = gather(b.detach())
        recall = (firsts @ seconds.t()).argmax(1)
        of_all = criterion(firsts, seconds)
        print(recall, of_all.item())
train(DataLoader(range(64), sampler=DistributedSampler(range(64))))
""",
    "a name of rank 0 behind the question for the rank, in one condition": DDP
    + """
if dist.get_rank() == 0:
    files = os.listdir("out")
dist.barrier()
if dist.get_rank() == 0 and files:
    print(files)
""",
    "a name that the other ranks get first, and rank 0 behind them": DDP
    + """
def score(metric):
    if dist.get_rank() != 0:
        found = metric.compute()
    dist.barrier()
    if dist.get_rank() == 0:
        found = metric.compute()
    return found
print(score(load_metric()))
""",
    "an engine that a module of the project makes under one setting": """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from our_args import read_args
class Trainer:
    def __init__(self, args):
        self.deepspeed = args.deepspeed
        self.model = torch.nn.Linear(8, 8).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters())
        if args.deepspeed:
            from our_engines import deepspeed_init
            self.model, self.opt = deepspeed_init(self)
        else:
            self.model = DDP(self.model, device_ids=[args.gpu])
    def train(self, loader):
        for batch in loader:
            loss = self.model(batch.cuda()).sum()
            if self.deepspeed:
                self.model.backward(loss)
                self.model.step()
            else:
                loss.backward()
                self.opt.step()
                self.opt.zero_grad()
Trainer(read_args()).train(torch.utils.data.DataLoader(range(9)))
""",
    "a function that makes a group, and that no code calls": """
import torch.distributed as dist
def set_up():
    dist.init_process_group("nccl")
    return dist.get_rank()
dist.init_process_group("gloo")
print(dist.get_rank())
""",
    "frozen parts and others that FSDP wraps apart": """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
def wrap(part):
    return FSDP(part)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.body.requires_grad_(False)
        self.body = wrap(self.body)
        self.head = wrap(self.head)
    def forward(self, x):
        return self.head(self.body(x))
dist.init_process_group("nccl")
net = wrap(Net().cuda())
net(torch.ones(2, 8)).sum().backward()
""",
    "frozen layers of a list that FSDP wraps one by one": """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(8, 2)
        self.body.requires_grad_(False)
        for number in range(4):
            self.body[number] = FSDP(self.body[number])
    def forward(self, x):
        for layer in self.body:
            x = layer(x)
        return self.head(x)
dist.init_process_group("nccl")
net = FSDP(Net().cuda())
net(torch.ones(2, 8)).sum().backward()
""",
    **{
        f"an encoder that has no pooler: {made}": f"""
import torch
from accelerate import Accelerator
from transformers import AutoModel, Wav2Vec2BertModel
class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = {made}
        self.head = torch.nn.Linear(768, 2)
    def forward(self, ids):
        return self.head(self.encoder(ids).last_hidden_state)
accelerator = Accelerator()
net = Tagger()
opt = torch.optim.AdamW(net.parameters())
net, opt = accelerator.prepare(net, opt)
accelerator.backward(net(torch.ones(2, 4).long()).sum())
opt.step()
"""
        for made in (
            "Wav2Vec2BertModel.from_pretrained('facebook/w2v-bert-2.0')",
            "AutoModel.from_pretrained('YituTech/conv-bert-base')",
        )
    },
    "a loop that ends by a count, which gets its value beside a clock": DDP
    + """
import time
step, start = 0, time.time()
for batch in DataLoader(range(64), sampler=DistributedSampler(range(64))):
    net(batch.cuda()).sum().backward()
    opt.step()
    opt.zero_grad()
    step += 1
    if step >= 20:
        break
print(time.time() - start)
""",
    "a loop over validation data that ends by its number, which is an index too": DDP
    + """
def run(cfg, loader, held_out):
    for step, (x, y) in enumerate(loader):
        net(x.cuda()).sum().backward()
        opt.step()
        opt.zero_grad()
        if step % cfg.interval == 0:
            turns = cfg.turns if cfg.turns is not None else len(held_out)
            losses = torch.zeros((turns,), device="cuda")
            for turn, (x, y) in enumerate(held_out):
                losses[turn] = net(x.cuda()).sum()
                if turn + 1 == turns:
                    break
            dist.all_reduce(losses)
data = torch.utils.data.TensorDataset(torch.ones(64, 4), torch.ones(64))
loaders = [DataLoader(data, sampler=DistributedSampler(data)) for _ in range(2)]
run(load_config(), *loaders)
""",
    "a method of the model in branches of options, each of which wraps it behind that": """
import argparse, os, torch
import torch.distributed as dist
class Net(torch.nn.Linear):
    def policies(self):
        return self.parameters()
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default=None)
parser.add_argument("--tune", default=None)
def make(model):
    return torch.optim.SGD(model.policies(), lr=0.1)
def main():
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = Net(2, 2).cuda()
    if not args.resume and not args.tune:
        optimizer = make(model)
        model = torch.nn.parallel.DistributedDataParallel(model)
    if args.resume:
        model.load_state_dict(torch.load(args.resume, map_location="cpu"))
        optimizer = make(model)
        model = torch.nn.parallel.DistributedDataParallel(model)
    if args.tune:
        optimizer = make(model)
        model = torch.nn.parallel.DistributedDataParallel(model)
    for x in load_data():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
main()
""",
    "CUDA where a group is asked for that nothing makes": """
import torch
from accelerate import Accelerator
import torch.distributed as dist
def share(number):
    if dist.is_initialized():
        size = torch.tensor([number], device="cuda")
        dist.broadcast(size, src=0)
        return int(size)
    return number
print(share(3))
accelerator = Accelerator()
""",
    "weights of another file than the one that the script saves": DDP
    + """
from pathlib import Path
FIRST = Path("resources") / "first.pth"
def start(net):
    net.module.load_state_dict(torch.load(FIRST))
start(net)
if dist.get_rank() == 0:
    torch.save(net.module.state_dict(), Path("out") / "best.pth")
""",
}
_CODES = {"C501", "C503", "D202", "R404", "R412", "R418", "R419", "R420", "R421", "R424", "P149"}


@pytest.mark.parametrize("name", HEALTHY)
def test_ranks_that_do_what_they_must_are_not_blamed(name: str) -> None:
    text = HEALTHY[name]
    ranks = RankTarget(capability=(8, 0), processes=2)
    found = [*lint(text, "train.py").findings, *lint_for(text, "train.py", [ranks], certain=True).findings]
    assert [item for item in found if item.code in _CODES and item.level is not Level.INFO] == []


SICK = {
    ("C501", "a method of the wrapped model under an option that does not wrap it"): HEALTHY[
        "a method of the model in branches of options, each of which wraps it behind that"
    ].replace(
        "model = torch.nn.parallel.DistributedDataParallel(model)\n    for x", "print(optimizer)\n    for x"
    ),
    ("R404", "a loop that ends by a clock"): HEALTHY[
        "a loop that ends by a count, which gets its value beside a clock"
    ].replace("step >= 20", "time.time() - start > 20"),
    ("D202", "CUDA in a group"): """
import torch
import torch.distributed as dist
size = torch.tensor([1], device="cuda")
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
if dist.is_initialized():
    dist.broadcast(size, src=0)
""",
    ("C503", "weights of the file that the script saves"): HEALTHY[
        "weights of another file than the one that the script saves"
    ].replace("best.pth", "first.pth"),
}


@pytest.mark.parametrize("case", SICK)
def test_what_is_near_them_is_still_blamed(case: tuple[str, str]) -> None:
    ranks = RankTarget(capability=(8, 0), processes=2)
    found = lint_for(SICK[case], "train.py", [ranks], certain=True).findings
    assert case[0] in [item.code for item in found if item.level is not Level.INFO]
