import os

import torch
import torch.distributed as dist
from pathvalidate import sanitize_filename


def file_of_rank(name):
    return sanitize_filename(f"{name}-{rank}.pt")


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
torch.save(model.state_dict(), file_of_rank("first"))
torch.save(model.state_dict(), file_of_rank("second"))
torch.save(model.state_dict(), file_of_rank("third"))
torch.save(model.state_dict(), file_of_rank("fourth"))
torch.save(model.state_dict(), file_of_rank("fifth"))
