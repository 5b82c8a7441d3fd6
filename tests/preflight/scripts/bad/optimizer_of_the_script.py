import torch


class Counting(torch.optim.AdamW):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)


model = torch.nn.Linear(4, 4).cuda().half()  # expect: P102 error
optimizer = Counting(model.parameters(), 1e-3)
model(torch.ones(1, 4).cuda().half()).sum().backward()
optimizer.step()
