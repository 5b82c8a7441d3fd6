# target: capability=8.0 processes=4
import os
import time

import torch
import torch.distributed as dist


def prepare():
    if int(os.environ["RANK"]) == 0:
        data = torch.load("data.pt", map_location="cpu")
    else:
        return None
    return torch.utils.data.TensorDataset(data)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
data = prepare()
