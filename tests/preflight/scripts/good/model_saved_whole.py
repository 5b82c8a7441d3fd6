import torch
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for i in range(3):
    opt.zero_grad(); model(torch.randn(8, 4)).mean().backward(); opt.step()
torch.save(model, "m.pt")
best = torch.load("m.pt", weights_only=False)
print(best(torch.randn(8, 4)))
