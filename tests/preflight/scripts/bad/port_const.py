import os
PORT = 29500
def setup(rank, world):
    os.environ["MASTER_PORT"] = str(PORT)  # expect: D207 warning
    import torch.distributed as dist
    dist.init_process_group("gloo", rank=rank, world_size=world)
