import torch


class Lars:
    def __init__(self, optimizer):
        self.optim = optimizer
        self.param_groups = optimizer.param_groups
        self.zero_grad = optimizer.zero_grad

    def step(self):
        self.optim.step()


model = torch.nn.Linear(4, 4).cuda()
optimizer = Lars(torch.optim.SGD(model.parameters(), lr=0.1))
scaler = torch.amp.GradScaler("cuda")
for batch in range(8):
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.ones(4, 4, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
