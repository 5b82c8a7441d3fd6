import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net
from data import loader, test_loader

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DDP(Net().to(rank), device_ids=[rank])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader(rank):
    opt.zero_grad()
    torch.nn.functional.cross_entropy(model(x.to(rank)), y.to(rank)).backward()
    opt.step()
if rank == 0:
    torch.save(model.module.state_dict(), "final.pt")
dist.barrier()
best = Net().to(rank)
best.load_state_dict(torch.load("final.pt", map_location=f"cuda:{rank}"))
best.eval()
