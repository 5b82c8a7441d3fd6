# target: capability=8.0 processes=2
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        optimizer.zero_grad()
        model(torch.randn(2, 4).to(rank)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(work, args=(2,), join=True)  # expect: D207 error
