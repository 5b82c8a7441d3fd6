"""`self.dtype` is what the script puts there."""
# target: capability=8.0 processes=2

import torch


class Net(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.layer = torch.nn.Linear(4, 4)


model = Net(torch.float16)
model.to(model.dtype)  # expect: P101 error
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.GradScaler("cuda")
for batch in range(3):
    scaler.scale(model.layer(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
