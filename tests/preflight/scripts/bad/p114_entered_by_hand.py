# target: capability=8.0
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
half = torch.autocast("cuda", torch.float16)  # expect: P114 warning
for _ in range(3):
    half.__enter__()
    loss = model(torch.ones(4).cuda()).sum()
    half.__exit__(None, None, None)
    loss.backward()
    optimizer.step()
