import torch
import lightning as L
from torch.utils.data import DataLoader
from net import Net
from data import dataset

fabric = L.Fabric(accelerator="gpu", devices=2, precision="bf16-mixed")
fabric.launch()
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(dataset(), batch_size=32, shuffle=True)
loader = fabric.setup_dataloaders(loader)
model, optimizer = fabric.setup(model, optimizer)
model.train()
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        fabric.backward(loss)
        optimizer.step()
