import torch
from lab.hooks import after_step
from lab.trainers import Trainer
from torch.utils.data import DataLoader


class Based(Trainer):
    def __init__(self):
        self.model = torch.nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for batch in DataLoader(torch.ones(64, 4), batch_size=8):
            self.before_batch()
            self.model(batch.cuda()).sum().backward()
            self.optimizer.step()


class Hooked:
    def __init__(self):
        self.model = torch.nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for batch in DataLoader(torch.ones(64, 4), batch_size=8):
            self.model(batch.cuda()).sum().backward()
            self.optimizer.step()
            after_step(self)


Based().run()
Hooked().run()
