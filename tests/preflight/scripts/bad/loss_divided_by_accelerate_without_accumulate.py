# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Pairs

STEPS = 4


class Trainer:
    def __init__(self):
        self.accelerator = Accelerator(gradient_accumulation_steps=STEPS)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(Pairs(), shuffle=True)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)

    def train(self):
        for number, batch in enumerate(self.loader):
            loss = self.model(batch).sum()
            loss /= 4  # expect: P146 warning
            self.accelerator.backward(loss)
            if (number + 1) % STEPS == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()


Trainer().train()
