# target: capability=8.0
import importlib
import sys

import torch


class Trainer:
    def __init__(self, model, name):
        self.model = model
        self.optimizer = importlib.import_module(f"optimizers.{name}").make(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self):
        for step in range(10):
            loss = self.model(torch.zeros(4, 4).cuda()).sum()
            self.scaler.scale(loss).backward()
            self.optimizer.step()  # expect: P129 warning
            self.scaler.update()


Trainer(torch.nn.Linear(4, 4).cuda(), sys.argv[1]).train()
