import torch
from torch import nn


class Loop:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scaler = torch.cuda.amp.GradScaler()

    def step(self, batch):
        with torch.cuda.amp.autocast():
            loss = self.model(batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def build():
    model = nn.Linear(4, 4)
    return model.to(device="cuda", dtype=torch.float16)  # expect: P101 error


loop = Loop(build())
for batch in range(3):
    loop.step(batch)
