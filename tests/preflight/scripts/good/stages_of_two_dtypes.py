# target: capability=8.0 processes=1
"""Each stage casts the model, and makes an optimizer after that."""

import torch


def train(model, dtype):
    model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 4, device="cuda", dtype=dtype)).mean().backward()
    optimizer.step()


model = torch.nn.Linear(4, 4).cuda()
train(model, torch.float32)
train(model, torch.bfloat16)
