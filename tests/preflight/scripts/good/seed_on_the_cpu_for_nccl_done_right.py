import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from net import Net
from data import make_loader

def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl")
    seed = torch.zeros(1, dtype=torch.long, device=local_rank)
    if dist.get_rank() == 0:
        seed.random_(1000)
    dist.broadcast(seed, src=0)
    torch.manual_seed(seed.item())
    model = DDP(Net().to(local_rank), device_ids=[local_rank])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in make_loader():
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(x.to(local_rank)), y.to(local_rank)).backward()
        opt.step()
main()
