# target: capability=8.0
"""The scaler is on with a switch only, which no condition asks."""
import argparse

import torch


class Learner:
    def __init__(self, model, optimizer, **kwargs):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda", enabled=kwargs.get("fp16", False))

    def step(self, batch):
        loss = self.model(batch).sum()
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: P116 warning
        self.scaler.step(self.optimizer)  # expect: P128 warning


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(4, 4).cuda()
learner = Learner(model, torch.optim.SGD(model.parameters(), 0.1), fp16=args.fp16)
for step in range(10):
    learner.step(torch.zeros(4, 4).cuda())
