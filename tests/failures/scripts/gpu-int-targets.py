import torch

model = torch.nn.Linear(32, 5).cuda()
for step in range(3):
    y = torch.randint(0, 5, (16,), device="cuda", dtype=torch.int32)
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32, device="cuda")), y)
    loss.backward()
    print("step", step, loss.item())
