import torch
from torch import nn

model = nn.Linear(4, 4).half().float()
optimizer = torch.optim.AdamW(model.parameters())
model.to(torch.float32)
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
    model.float()
model.half()
torch.save(model.state_dict(), "m.pt")
