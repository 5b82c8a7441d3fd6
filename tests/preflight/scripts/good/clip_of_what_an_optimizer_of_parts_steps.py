# target: capability=8.0
import torch
from torch import nn
from data import batches


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.encoder(x))


class Run:
    def __init__(self):
        self.model = Model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self):
        for x, y in batches():
            self.optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()


run = Run()
groups = [{"params": run.model.encoder.parameters(), "lr": 1e-5}, {"params": run.model.head.parameters()}]
run.optimizer = torch.optim.AdamW(groups)
run.fit()
