import torch
from lightning.fabric import Fabric
from net import Net
from data import dataset

def main():
    fabric = Fabric(accelerator="cuda", devices=4, strategy="ddp")
    fabric.launch()
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(dataset(), batch_size=32, shuffle=True))
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            fabric.backward(loss)
            optimizer.step()

main()
