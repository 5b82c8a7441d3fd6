import torch
import torch.distributed as dist
dist.init_process_group("gloo")
size = 4 if dist.get_rank() == 0 else 8
dist.all_reduce(torch.ones(size))
