# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset, settings


def save(model, path):
    torch.save(model.state_dict(), path)


def train(args, model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0 and args.keeps:
            save(model, f"{args.folder}/latest.pt")


args = settings()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
args.keeps = args.folder and dist.get_rank() == 0
model = DDP(torch.nn.Linear(16, 4).cuda())
samples = dataset()
loader = DataLoader(samples, batch_size=8, sampler=DistributedSampler(samples))
train(args, model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
