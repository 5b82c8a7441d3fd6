import torch, os
import torch.distributed as dist
dist.init_process_group(backend="nccl")
rank = dist.get_rank()
device = rank % torch.cuda.device_count()
torch.cuda.set_device(device)
model = torch.nn.Linear(1, 1).cuda()
