import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
for step in range(30):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30)
    optimizer.step()
    optimizer.zero_grad()
    print(f"iter {step}: loss {loss.item():.4f}, grad norm {norm:.2f}", flush=True)
