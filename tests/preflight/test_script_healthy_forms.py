"""Forms of public scripts that were blamed although nothing is wrong with them."""

import pytest

from preflight.script.lint import lint, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget
from tests.preflight.script_parts import DDP, STEP

HEALTHY = {
    "an autocast to bf16 beside a precision that the script itself turns off": """
import torch
from accelerate import Accelerator
acc = Accelerator(mixed_precision="no")
net, opt = acc.prepare(torch.nn.Linear(4, 4), torch.optim.AdamW([]))
for batch in range(9):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(torch.ones(4, 4, device="cuda")).sum()
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
""",
    "losses of several heads, which each batch gathers anew": """
import torch
heads = [torch.nn.Linear(4, 4) for _ in range(3)]
opt = torch.optim.SGD([p for head in heads for p in head.parameters()])
for batch in torch.utils.data.DataLoader(range(9)):
    losses = []
    for head in heads:
        opt.zero_grad()
        loss = head(batch).sum()
        loss.backward()
        opt.step()
        losses.append(loss)
    print(sum(losses).item())
""",
    "a lambda whose x is not that of the batch": DDP
    + """
last = sorted(os.listdir("out"), key=lambda x: int(x))[-1]
step = int(last)
items = DataLoader(range(64), sampler=DistributedSampler(range(64)))
for x in items:
    net(x.cuda()).sum().backward()
    opt.step()
    opt.zero_grad()
    step += 1
    if step % 10 == 0:
        dist.barrier()
""",
    "a loader whose options are those of one branch or the other": """
import sys
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
options = {"num_workers": 2}
if len(sys.argv) > 1:
    options["batch_sampler"] = BatchSampler(SequentialSampler(range(9)), 2, False)
else:
    options.update(batch_size=4, drop_last=True)
DataLoader(range(9), **options)
""",
    "a model that to_empty() puts on the GPU": """
import torch
net = torch.nn.Linear(4, 4)
net.to_empty(device="cuda")
opt = torch.optim.SGD(net.parameters())
for batch in torch.utils.data.DataLoader(range(9)):
    batch = batch.to("cuda")
    opt.zero_grad()
    net(batch).sum().backward()
    opt.step()
""",
    "a store that each rank fills itself": DDP
    + """
class Store(torch.utils.data.Dataset):
    def __init__(self):
        self.seen = []
    def push(self, rollouts):
        self.seen += rollouts
    def __len__(self):
        return len(self.seen)
    def __getitem__(self, at):
        return self.seen[at]
store = Store()
store.push([torch.ones(4)])
for batch in DataLoader(store, batch_size=4, shuffle=True):"""
    + STEP,
    "what follows an assertion of the first rank": DDP
    + """
def save(net):
    assert int(os.environ.get("RANK", 0)) == 0
    torch.save(net.module.state_dict(), "model.pt")
if load():
    save(net)
""",
    "a broadcast in a closure that rank 0 alone calls, which the others answer": DDP
    + """
opt = torch.optim.LBFGS(net.module.parameters())
rank, signal = dist.get_rank(), torch.zeros(1, device="cuda")
def closure():
    if rank == 0:
        signal.fill_(1)
        dist.broadcast(signal, src=0)
    loss = net.module(torch.ones(4, 4).cuda()).sum()
    loss.backward()
    return loss
if rank == 0:
    opt.step(closure)
    dist.broadcast(signal, src=0)
else:
    while True:
        dist.broadcast(signal, src=0)
        if signal.item() == 0:
            break
        closure()
""",
    "a loss that becomes a number behind its own loop": """
import torch
net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters())
total = 0
for batch in torch.utils.data.DataLoader(range(9)):
    if load():
        for _ in range(9):
            loss = net(batch).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
    loss = net(batch).sum().item()
    total += loss
""",
    "what the rank that fails writes on its way out": DDP
    + """
import sys
for batch in DataLoader(range(64), sampler=DistributedSampler(range(64), shuffle=False)):
    loss = net(batch.cuda()).sum()
    if not loss.isfinite():
        torch.save(batch, "failed.pt")
        sys.exit(1)
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
    "a sampler that draws by chance what some steps need": DDP
    + """
from torch.utils.data import WeightedRandomSampler
while load():
    sampler = WeightedRandomSampler(weights, num_samples=8 * steps, replacement=False)
    for batch in DataLoader(range(64), sampler=sampler, batch_size=8):
        net(batch.cuda()).sum().backward()
        opt.step()
        opt.zero_grad()
""",
    "a counter of an object that keeps the loss too": DDP
    + """
class Trainer:
    def __init__(self):
        self.count, self.loss = 0, None
    def step(self, batch):
        loss = net(batch.cuda()).sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()
    def train(self, loader, most):
        for _ in range(9):
            for batch in loader:
                loss = self.step(batch)
                self.loss = loss
                self.count += 1
                if self.count >= most:
                    return
data = torch.zeros(8, 4)
Trainer().train(DataLoader(data, sampler=DistributedSampler(data, shuffle=False)), settings().most)
""",
    "what rank 0 finds and sends to all": DDP
    + """
def share(found):
    if dist.get_rank() == 0:
        objects = [found]
    else:
        objects = [None]
    dist.broadcast_object_list(objects, src=0)
    return objects[0]
def main():
    last = None
    if dist.get_rank() == 0:
        last = "last.pt"
    resume = share(last)
    if not resume:
        return
    dist.barrier()
main()
""",
    "gradients that a class of the script's own scatters, in a module that nothing here calls": """
import torch
import torch.distributed as dist
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer = layer
        return x
    @staticmethod
    def backward(ctx, gradient):
        ctx.layer.reduce()
        return None, gradient
class Shard(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.part = inner, torch.nn.Parameter(torch.zeros(4))
    def reduce(self):
        whole = torch.cat([p.grad.reshape(-1) for p in self.inner.parameters()])
        dist.reduce_scatter_tensor(self.part.grad, whole)
    def forward(self, x):
        return self.inner(Gate.apply(self, x))
def worker(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    net = Shard(torch.nn.Linear(4, 4).cuda())
    opt = torch.optim.AdamW([net.part])
    for _ in range(9):
        net(torch.ones(4, 4).cuda()).sum().backward()
        opt.step()
        opt.zero_grad()
""",
    "an engine of DeepSpeed in place of DDP, by an option": DDP
    + """
import deepspeed
args = settings()
def wrap(model):
    if args.engine == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model.cuda())
    model, _, _, _ = deepspeed.initialize(args=args, model=model)
    return model
model = wrap(torch.nn.Linear(4, 4))
for batch in range(9):
    loss = model(torch.ones(4, 4).cuda()).sum()
    if args.engine == "deepspeed":
        model.backward(loss)
        norm = model.get_global_grad_norm()
        model.save_checkpoint("out")
""",
    "a Fabric that its author starts with fabric run": """
# fabric run --devices=4 train.py
import torch
from lightning.fabric import Fabric
fabric = Fabric(devices=4)
net = torch.nn.Linear(4, 4)
net, opt = fabric.setup(net, torch.optim.AdamW(net.parameters()))
""",
    "a Fabric without options, which are those of fabric run": """
import torch
from lightning.fabric import Fabric
fabric = Fabric()
net = torch.nn.Linear(4, 4)
net, opt = fabric.setup(net, torch.optim.AdamW(net.parameters()))
""",
    "one rank for each of the devices that an option names, on each of the nodes": """
import argparse, os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
parser = argparse.ArgumentParser()
parser.add_argument("--devices", nargs="+", default=["cuda:0"])
def run(rank, size):
    torch.cuda.set_device(rank)
    first = int(os.environ["NODE"]) * size
    dist.init_process_group("nccl", world_size=int(os.environ["NODES"]) * size, rank=first + rank)
if __name__ == "__main__":
    count = len(parser.parse_args().devices)
    mp.spawn(run, nprocs=count, args=(count,))
""",
    "a GPU for a device without an index": """
import torch
class Pipe:
    def __init__(self, device="cuda"):
        if isinstance(device, str):
            device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda:0")
        self.device = device
pipe = Pipe(device=ranks().device)
net = torch.nn.Linear(4, 4).to(pipe.device)
""",
    "DataParallel beside the branch of ranks, where one process sees several GPUs": """
import argparse
import torch
from engines import init_dist
parser = argparse.ArgumentParser()
parser.add_argument("--launcher", choices=["none", "pytorch"], default="none")
args = parser.parse_args()
if args.launcher == "none":
    args.distributed = False
else:
    args.distributed = True
    init_dist(args.launcher)
net = torch.nn.Linear(4, 4).cuda()
if args.distributed:
    net = torch.nn.parallel.DistributedDataParallel(net)
else:
    if torch.cuda.device_count() > 1:
        net = torch.nn.DataParallel(net)
""",
    "a sampler made for each epoch's own data": DDP
    + """
for epoch in range(9):
    data = shuffled(epoch)
    for batch in DataLoader(data, sampler=DistributedSampler(data, shuffle=True)):
        net(batch.cuda()).sum().backward()
        opt.step()
        opt.zero_grad()
""",
    "a cache of what is computed of a sample": DDP
    + """
def encode(folder, name):
    path = os.path.join(folder, os.path.basename(name) + ".pt")
    if os.path.isfile(path):
        return torch.load(path)
    feature = read(name)
    torch.save(feature, path)
    return feature
data = names()
for batch in DataLoader(data, sampler=DistributedSampler(data, shuffle=False)):
    net(encode(settings().cache, batch[0])).sum().backward()
    opt.step()
    opt.zero_grad()
""",
    "weights of another file than the one that dict(m=...) is saved to": DDP
    + """
net.module.load_state_dict(torch.load("pretrained.pt")["state"])
if dist.get_rank() == 0:
    torch.save(dict(m=net.module.state_dict(), epoch=1), "last.pt")
""",
    "a part of a half model's encoder in float32, which alone is trained": """
import sys
from transformers import AutoModel, Trainer, TrainingArguments
if len(sys.argv) > 1:
    model = AutoModel.from_pretrained("THUDM/chatglm2-6b", trust_remote_code=True)
else:
    model = AutoModel.from_pretrained("THUDM/chatglm-6b", trust_remote_code=True)
model = model.half()
model.transformer.prefix_encoder.float()
Trainer(model=model, args=TrainingArguments("out", fp16=True)).train()
""",
    "an encoder that serves, in an autocast of its own": """
import accelerate, torch
def main():
    accelerator = accelerate.Accelerator()
    net = torch.nn.Linear(4, 4)
    opt = torch.optim.AdamW(net.parameters())
    net, opt, loader = accelerator.prepare(net, opt, torch.utils.data.DataLoader(range(9)))
    autoencoder = load("vae").to(accelerator.device)
    @torch.cuda.amp.autocast()
    def encode(batch):
        return autoencoder.encode(batch)
    def train_step(batch):
        opt.zero_grad()
        loss = net(encode(batch)).mean()
        accelerator.backward(loss)
        opt.step()
    for batch in loader:
        train_step(batch)
main()
""",
    "a trial of memory, below a loop of steps that are accumulated": """
import torch
def train(net, opt, loader, accum):
    for number, batch in enumerate(loader):
        (net(batch.cuda()).sum() / accum).backward()
        if number % accum == 0:
            opt.step()
            opt.zero_grad()
def try_memory(net, opt, batches):
    for batch in batches:
        net(batch.cuda()).sum().backward()
        opt.zero_grad()
net = torch.nn.Linear(4, 4).cuda()
opt = torch.optim.AdamW(net.parameters())
loader = torch.utils.data.DataLoader(range(99))
try_memory(net, opt, longest(loader))
train(net, opt, loader, settings().accum)
""",
    "weights that are moved to the CPU, one by one, before they are saved": DDP
    + """
net.module.load_state_dict(torch.load("last.pt"))
weights = net.module.state_dict()
for name in list(weights):
    weights[name] = weights[name].detach().to("cpu")
torch.save(weights, "last.pt") if dist.get_rank() == 0 else None
""",
}
_WORDS = {"P118", "P139", "R404", "R402", "D210", "R401", "R405", "R403", "R406", "C501", "C503", "D201"}
_WORDS |= {"P135", "D206", "D207", "V305", "P101", "P102"}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_forms_of_public_scripts_are_not_blamed(name: str) -> None:
    text = HEALTHY[name]
    ranks = RankTarget(capability=(8, 0), processes=2)
    found = [*lint(text, "train.py").findings, *lint_for(text, "train.py", [ranks], certain=True).findings]
    assert [item for item in found if item.code in _WORDS and item.level is not Level.INFO] == []
