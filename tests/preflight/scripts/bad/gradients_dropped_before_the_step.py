import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(8):
    loss = model(torch.ones(4, 4, device="cuda")).sum()
    loss.backward()
    optimizer.zero_grad()  # expect: P135 error
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
