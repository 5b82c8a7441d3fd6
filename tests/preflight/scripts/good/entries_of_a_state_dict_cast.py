# target: capability=8.0
"""A cast of an entry makes another tensor, and leaves the model as it is."""
import torch
from torch import nn


def save_half(weights, path):
    smaller = {}
    for key in weights.keys():
        smaller[key] = weights[key].half()
    torch.save(smaller, path)


model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    for _ in range(10):
        model(torch.ones(4).cuda()).sum().backward()
        optimizer.step()
    save_half(model.state_dict(), "half.pt")
