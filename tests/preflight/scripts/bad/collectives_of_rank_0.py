# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def gathered(loss):
    dist.reduce(loss, 0)  # expect: R404 error
    return loss


def save(model):
    if dist.get_rank() != 0:
        return
    torch.save(model.state_dict(), "model.pt")  # expect: R404 error


dist.init_process_group("nccl")
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FSDP(torch.nn.Linear(4, 4))
halves = dist.new_group([0, 1])
loss = model(torch.zeros(4, 4, device="cuda")).sum()
dist.all_reduce(loss)
if rank == 0:
    print(gathered(loss))
    dist.all_reduce(loss, group=halves)
    dist.barrier()  # expect: R404 error
save(model)
if loss > 3 and rank == 0:
    dist.broadcast(loss, src=0)  # expect: R404 error
