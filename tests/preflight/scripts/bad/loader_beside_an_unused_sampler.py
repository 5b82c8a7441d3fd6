import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, number):
        return torch.zeros(4)


dist.init_process_group("nccl", device_id=torch.device("cuda"))
torch.manual_seed(42 + dist.get_rank())
data = Images()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, shuffle=True)  # expect: R401 warning
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() % 8 == 0:
        print(f"node {dist.get_rank() // 8}: {epoch}")
