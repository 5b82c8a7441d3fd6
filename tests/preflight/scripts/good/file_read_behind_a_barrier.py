import os
import time

import torch
import torch.distributed as dist
from datasets import load_from_disk
from data import build


def wait_for_all():
    if dist.is_initialized():
        dist.barrier()


def load(path):
    if dist.get_rank() == 0 and not os.path.exists(path):
        build().save_to_disk(path)
    wait_for_all()
    return load_from_disk(path)


def load_first(path):
    if dist.get_rank() != 0:
        dist.barrier()
    if dist.get_rank() == 0:
        build().save_to_disk(path)
    data = load_from_disk(path)
    if dist.get_rank() == 0:
        dist.barrier()
    return data


def load_late(path):
    if dist.get_rank() == 0:
        build().save_to_disk(path)
    else:
        while not os.path.exists(path + "/done"):
            time.sleep(1)
    return load_from_disk(path)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank = dist.get_rank()
first, second, third = load("a"), load_first("b"), load_late("c")
if rank == 0:
    os.makedirs("states", exist_ok=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
torch.save(model.state_dict(), os.path.join("states", f"{rank}.pt"))
if rank == 0:
    torch.save(model.module.state_dict(), "last.pt")
before = torch.load("earlier.pt", map_location="cpu")
if rank == 0:
    again = torch.load("last.pt", map_location="cpu")
# target: capability=8.0 processes=4
