import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).requires_grad_(False))
