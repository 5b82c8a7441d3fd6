# target: capability=8.0
import enum

import torch


class Weights(enum.Enum):
    HALF = torch.float16


class Job:
    weights = Weights.HALF

    def build(self):
        return torch.nn.Linear(4, 4).cuda().to(self.weights.value)  # expect: P102 error


model = Job().build()
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(4).cuda().half()).sum().backward()
optimizer.step()
