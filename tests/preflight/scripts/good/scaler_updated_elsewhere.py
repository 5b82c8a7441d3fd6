import torch


class Scaling:
    def __init__(self):
        self.inner = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self.inner.scale(loss).backward()
        self.inner.step(optimizer)
        after = self.inner
        after.update()


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaling = Scaling()
off = torch.amp.GradScaler("cuda", enabled=False)
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).sum()
    scaling(loss, optimizer)
    off.step(optimizer)
