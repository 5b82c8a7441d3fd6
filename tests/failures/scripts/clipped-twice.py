import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.randn(4, 8)).mean()).backward()
scaler.unscale_(optimizer)
scaler.unscale_(optimizer)
