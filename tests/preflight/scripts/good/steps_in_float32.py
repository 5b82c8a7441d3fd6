import clip
import torch

model, _ = clip.load("ViT-B/32")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-6, eps=1e-6)


def to_float32(model):
    for p in model.parameters():
        p.data = p.data.float()
        p.grad.data = p.grad.data.float()


def to_half(model):
    for p in model.parameters():
        p.data = p.data.half()


for batch in range(10):
    optimizer.zero_grad()
    model(batch).backward()
    to_float32(model)
    optimizer.step()
    to_half(model)
