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
}
_WORDS = {"P118", "P139", "R404", "R402", "D210", "R401", "R405"}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_forms_of_public_scripts_are_not_blamed(name: str) -> None:
    text = HEALTHY[name]
    ranks = RankTarget(capability=(8, 0), processes=2)
    found = [*lint(text, "train.py").findings, *lint_for(text, "train.py", [ranks], certain=True).findings]
    assert [item for item in found if item.code in _WORDS and item.level is not Level.INFO] == []
