# target: capability=8.0
import torch
from data import batches

model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")


class Run:
    def __init__(self, optimizers):
        self.optimizers = optimizers

    def fit(self):
        for x, y in batches():
            with torch.autocast("cuda", torch.float16):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            for optimizer in self.optimizers:
                scaler.unscale_(optimizer)
            for optimizer in self.optimizers:
                scaler.step(optimizer)
                optimizer.zero_grad()
            scaler.update()


Run([optimizer, optimizer]).fit()
Run(optimizers=tuple(each for each in [optimizer])).fit()
