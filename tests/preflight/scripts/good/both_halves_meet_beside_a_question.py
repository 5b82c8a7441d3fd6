# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
if not os.path.exists("data.pt") and dist.get_rank() == 0:
    torch.save(torch.zeros(4), "data.pt")
    dist.barrier()
else:
    dist.barrier()
