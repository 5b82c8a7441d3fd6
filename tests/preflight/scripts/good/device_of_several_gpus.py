# target: processes=2
import os

import torch


def place():
    if torch.cuda.device_count() > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")


place()
batch = torch.ones(4).cuda()
place()
