import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
behind = torch.optim.SGD(model.parameters(), lr=0.1)
parts = 8
for step, (x, y) in enumerate(torch.load("batches.pt", map_location="cpu")):
    optimizer.zero_grad()  # expect: P135 warning
    loss = torch.nn.functional.mse_loss(model(x), y) / parts
    loss.backward()
    if (step + 1) % parts == 0:
        optimizer.step()
for step, (x, y) in enumerate(torch.load("batches.pt", map_location="cpu")):
    loss = torch.nn.functional.mse_loss(model(x), y) / parts
    loss.backward()
    if (step + 1) % parts == 0:
        behind.step()
    behind.zero_grad()  # expect: P135 warning
