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

def setup():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    return rank
def ddp_loader():
    ds = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
    s = DistributedSampler(ds)
    return DataLoader(ds, batch_size=8, sampler=s), s

def fit(model, opt, dl, s, first=0):
    for e in range(first, 3):
        s.set_epoch(e)
        for x, y in dl:
            loss = F.cross_entropy(model(x.cuda()), y.cuda()); opt.zero_grad(); loss.backward(); opt.step()

def main():
    rank = setup()
    model = Net().cuda()
    pass
    model = DDP(model, device_ids=[rank])
    opt = torch.optim.Adam(model.parameters()); dl, s = ddp_loader()
    if os.path.exists("c.pt"): model.module.load_state_dict(torch.load("c.pt"))
    fit(model, opt, dl, s)
    if rank == 0:
        torch.save({k: v.cpu() for k, v in model.module.state_dict().items()}, "c.pt")
    dist.barrier(); dist.destroy_process_group()

main()
