import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from data import loader

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(10, 10)
    def forward(self, x):
        return self.fc(x)
    def compute_loss(self, out, y):
        return ((out - y) ** 2).mean()

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DDP(Net().to(rank), device_ids=[rank])
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for x, y in loader(rank):
    opt.zero_grad()
    out = model(x.to(rank))
    loss = model.module.compute_loss(out, y.to(rank))
    loss.backward()
    opt.step()
