import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

fabric = Fabric(strategy="ddp")
fabric.launch()
model = torch.nn.Linear(4, 4)
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
data = TensorDataset(torch.randn(64, 4))
loader = DataLoader(data, 8, shuffle=True)  # expect: R401 warning
other = fabric.setup_dataloaders(DataLoader(data, 8, shuffle=True))
for epoch in range(3):
    for drawn in (loader, other):
        for (batch,) in drawn:
            fabric.backward(model(batch.to(fabric.device)).mean())
            optimizer.step()
            optimizer.zero_grad()
