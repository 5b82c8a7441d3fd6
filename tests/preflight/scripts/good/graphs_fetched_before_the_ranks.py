# target: capability=8.0 processes=4
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch_geometric.datasets import Reddit


def run(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    graph = Reddit("data/reddit")[0]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(602, 41).cuda())
    model(graph.x.cuda()).sum().backward()


if __name__ == "__main__":
    Reddit("data/reddit")
    mp.spawn(run, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
