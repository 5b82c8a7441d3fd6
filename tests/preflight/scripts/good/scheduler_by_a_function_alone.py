# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

TOTAL = 500


def decay(done):
    return max(0.0, (TOTAL - done) / TOTAL)


accelerator = Accelerator()
net = torch.nn.Linear(10, 2)
optimizer = torch.optim.AdamW(net.parameters())
loader = DataLoader(TensorDataset(torch.randn(1000, 10)), batch_size=10, shuffle=True)
scheduler = LambdaLR(optimizer, decay)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
step = 0
while step < TOTAL:
    for (x,) in loader:
        accelerator.backward(net(x).mean())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        step += 1
