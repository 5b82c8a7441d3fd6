import os, torch
from torch.distributed import init_process_group
def ddp_setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"  # expect: D207 warning
    os.environ["MASTER_PORT"] = "12355"  # expect: D207 warning
    torch.cuda.set_device(rank)  # expect: D201 info
    init_process_group(backend="nccl", rank=rank, world_size=world_size)
if __name__ == "__main__":
    ddp_setup(0, 2)  # expect: D201 warning
