# target: capability=8.0 processes=1
import torch


class Half:
    def __init__(self, function):
        self.function = function
        self.context = torch.autocast("cuda", dtype=torch.float16)  # expect: P114 warning

    def __call__(self, *args):
        with self.context:
            return self.function(*args)


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())


@Half
def loss_of(batch):
    return model(batch).float().mean()


loss_of(torch.ones(4, 4).cuda()).backward()
optimizer.step()
