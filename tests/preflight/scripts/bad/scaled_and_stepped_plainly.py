import torch


def backward(scaler, loss):
    scaler.scale(loss).backward()


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).sum()
    backward(scaler, loss)
    optimizer.step()  # expect: P129 warning
    optimizer.zero_grad()
