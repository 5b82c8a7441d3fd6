import torch
from torch import nn


def train_one_epoch(model, loader, optimizer, scaler=None):
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
            loss = model(batch).sum()
        loss.backward()
        if scaler is not None:
            scaler.step(optimizer)  # expect: P119 error
            scaler.update()
        else:
            optimizer.step()


model = nn.Linear(4, 4).cuda()
train_one_epoch(model, range(3), torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda"))
