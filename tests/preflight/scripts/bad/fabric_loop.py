"""Fabric scales in fabric.backward(); the loop is the script's own."""
# target: capability=7.5 processes=2

import torch
from lightning.fabric import Fabric


def main(fabric, lr):
    model = torch.nn.Linear(2, 2).half()  # expect: P101 error
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model, optimizer = fabric.setup(model, optimizer)
    for step in range(3):
        loss = model(torch.ones(1, 2, device="cuda:0")).sum()  # expect: D201 error
        loss.backward()  # expect: P124 error
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")  # expect: R405 warning


if __name__ == "__main__":
    fabric = Fabric(accelerator="cuda", devices=2, precision="16-mixed")
    fabric.launch(main, 1e-3)
