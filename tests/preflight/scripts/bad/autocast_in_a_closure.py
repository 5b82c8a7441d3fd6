# target: capability=8.0 processes=1
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):  # expect: P114 warning
        loss = model(torch.ones(4, 4).cuda()).sum()
    loss.backward()
    return loss


optimizer.step(closure)
