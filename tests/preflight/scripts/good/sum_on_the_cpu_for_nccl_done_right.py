import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net
from data import make_loader

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DDP(Net().cuda(), device_ids=[rank])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    total = 0.0
    for x, y in make_loader(epoch):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        total += loss.item()
    t = torch.tensor(total, device="cuda")
    dist.all_reduce(t)
    if dist.get_rank() == 0:
        print(epoch, t.item() / dist.get_world_size())
