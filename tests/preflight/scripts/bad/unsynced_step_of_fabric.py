"""no_backward_sync() is on in the turns that step."""

import lightning as L
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

fabric = L.Fabric(accelerator="gpu", devices=4, strategy="ddp")
fabric.launch()
model = nn.Linear(8, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model, opt = fabric.setup(model, opt)
loader = fabric.setup_dataloaders(
    DataLoader(TensorDataset(torch.rand(100, 8), torch.zeros(100).long()), batch_size=4, shuffle=True)
)
for i, (x, y) in enumerate(loader):
    is_accumulating = (i + 1) % 4 != 0
    with fabric.no_backward_sync(model, enabled=not is_accumulating):  # expect: R415 warning
        loss = F.cross_entropy(model(x), y) / 4
        fabric.backward(loss)
    if not is_accumulating:
        opt.step()
        opt.zero_grad()
