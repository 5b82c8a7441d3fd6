import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler

class Net(nn.Module):
    def __init__(self, n=8, m=4):
        super().__init__()
        self.body = nn.Linear(n, 16)
        self.fc = nn.Linear(16, m)
    def forward(self, x):
        return self.fc(F.relu(self.body(x)))

dist.init_process_group("gloo")
model = Net()
if os.path.exists("c.pt"): model.load_state_dict(torch.load("c.pt"))
ddp = DDP(model); opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
ds = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,))); s = DistributedSampler(ds)
for x, y in DataLoader(ds, batch_size=8, sampler=s):
    loss = F.cross_entropy(ddp(x), y); opt.zero_grad(); loss.backward(); opt.step()
if dist.get_rank() == 0: torch.save(model.state_dict(), "c.pt")
