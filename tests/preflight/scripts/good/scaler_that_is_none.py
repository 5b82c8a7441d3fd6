# target: capability=8.0 processes=2
from data import loader
import torch
def train(model, opt, scaler=None):
    for b in loader():
        loss = model(b).mean()
        if scaler is not None:
            scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
        else:
            loss.backward(); opt.step()
model = torch.nn.Linear(4, 1).cuda().bfloat16()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, opt, None)
