import argparse, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
if 'RANK' in os.environ:
    rank = int(os.environ['RANK']); world = int(os.environ['WORLD_SIZE']); local_rank = int(os.environ['LOCAL_RANK'])
elif 'SLURM_PROCID' in os.environ:
    rank = int(os.environ['SLURM_PROCID']); local_rank = rank % torch.cuda.device_count(); world = int(os.environ['SLURM_NTASKS'])
torch.cuda.set_device(local_rank)
dist.init_process_group('nccl', world_size=world, rank=rank)
sampler = DistributedSampler(data)

model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local_rank])
opt = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(data, 8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        opt.step()
