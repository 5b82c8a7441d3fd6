import torch
from accelerate import Accelerator
class Run:
    def __init__(self):
        self.acc = Accelerator(mixed_precision="fp16")
        self.model = torch.nn.Linear(1, 1)
        self.opt = torch.optim.Adam(self.model.parameters())
        self.model, self.opt = self.acc.prepare(self.model, self.opt)
    def step(self, x):
        loss = self.model(x).mean()
        (loss / 4).backward()  # expect: P124 error
        self.opt.step()
    def fit(self, loader):
        for x in loader:
            self.step(x)
Run().fit(get_loader())
