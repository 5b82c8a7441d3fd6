import torch, os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group(backend="nccl")  # expect: D205 warning
rank = dist.get_rank()
model = torch.nn.Linear(1, 1).cuda()
model = DDP(model)
opt = torch.optim.SGD(model.parameters(), 0.1)
for x in get_loader():
    model(x.cuda()).sum().backward(); opt.step()
