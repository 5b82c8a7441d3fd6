# target: capability=8.0
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
half = torch.autocast("cuda", torch.float16)
for _ in range(3):
    model(torch.ones(4).cuda()).sum().backward()
    optimizer.step()
    with torch.no_grad(), half:
        print(model(torch.ones(4).cuda()))
