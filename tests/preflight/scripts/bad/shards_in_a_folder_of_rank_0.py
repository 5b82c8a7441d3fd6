# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist


def save(folder, state, rank):
    if rank == 0:
        os.makedirs(folder, exist_ok=True)  # expect: R405 info
    torch.save(state, os.path.join(folder, f"rank{rank}.pt"))  # expect: R405 warning


def save_behind_a_barrier(folder, state, rank):
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
    dist.barrier()
    torch.save(state, os.path.join(folder, f"rank{rank}.pt"))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
model(torch.ones(4, 8).cuda()).sum().backward()
save("shards", model.module.state_dict(), dist.get_rank())
save_behind_a_barrier("others", model.module.state_dict(), dist.get_rank())
