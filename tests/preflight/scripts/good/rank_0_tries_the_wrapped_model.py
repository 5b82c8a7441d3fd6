import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from apex.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, model, optimizer, loader):
    for number, batch in enumerate(loader):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and number % 100 == 0:
            print(model.module(batch[:1]))


def worker(rank, ranks):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="env://", world_size=ranks, rank=rank)
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data, num_replicas=ranks, rank=rank)
    loader = DataLoader(data, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(rank))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        if rank == 0:
            train(rank, model, optimizer, loader)
            torch.save(model.module.state_dict(), "model.pt")
        else:
            train(rank, model, optimizer, loader)


if __name__ == "__main__":
    mp.spawn(worker, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))
