import torch
model = torch.nn.Linear(4, 4).half().cuda()  # expect: P102 error
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-8)  # expect: P102 info
for i in range(10):
    loss = model(torch.zeros(1, 4)).sum()
    loss.backward()
    optimizer.step()
