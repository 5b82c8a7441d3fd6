import torch
model = torch.nn.Linear(8, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
loss = model(torch.randn(4, 8).half()).float().mean()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
