import argparse, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
local_rank = int(os.environ['LOCAL_RANK']); node = int(os.environ.get('NODE_RANK', 0)); n = torch.cuda.device_count()
rank = node * n + local_rank
world = int(os.environ['WORLD_SIZE'])
torch.cuda.set_device(local_rank)
dist.init_process_group('nccl', rank=rank, world_size=world)
sampler = DistributedSampler(data, num_replicas=world, rank=rank)

model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local_rank])
opt = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(data, 8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        opt.step()
