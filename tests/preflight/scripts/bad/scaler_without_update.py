import torch


class Training:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # expect: P128 error
        self.optimizer.zero_grad()


training = Training(torch.nn.Linear(4, 4).cuda())
for batch in range(3):
    training.step(batch)
