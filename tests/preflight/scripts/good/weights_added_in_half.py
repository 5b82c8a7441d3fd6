import torch

model = torch.nn.Linear(4, 4).cuda()
merged = torch.nn.Linear(4, 4).cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(10):
    model(torch.ones(4)).sum().backward()
    with torch.no_grad():
        for half, parameter in zip(merged.parameters(), model.parameters(), strict=True):
            half.add_(parameter.grad, alpha=-0.1)
    optimizer.step()
    optimizer.zero_grad()
for half, parameter in zip(merged.parameters(), model.parameters(), strict=True):
    half.data.add_(parameter.data)
