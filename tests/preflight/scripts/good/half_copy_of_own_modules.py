import copy

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, batch):
        return self.layer(batch)


model = Net().cuda()
whole = Net()
saved = copy.deepcopy(model).half()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
for _step in range(10):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(4)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    for mean, parameter in zip(whole.parameters(), saved.parameters(), strict=True):
        mean.data.mul_(0.999).add_(parameter.data, alpha=0.001)
