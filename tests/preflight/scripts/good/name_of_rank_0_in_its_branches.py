# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter

from data import Images


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    data = Images("train")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if rank == 0:
        writer = SummaryWriter("runs/a")
    is_first = dist.get_rank() == 0
    try:
        print(writer)
    except NameError:
        pass
    step = 0
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0 and rank == 0:
                writer.add_scalar("loss", loss.item(), step)
            if is_first:
                writer.add_scalar("epoch", epoch, step)
            if rank != 0:
                continue
            writer.add_scalar("step", step, step)

main()
