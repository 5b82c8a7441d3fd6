import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def current_device():
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return "cuda:0"
    return f"{accelerator.type}:{torch.accelerator.current_device_index()}"


dist.init_process_group("nccl")
torch.accelerator.set_device_index(dist.get_node_local_rank())
model = DDP(torch.nn.Linear(4, 4).to(current_device()))
