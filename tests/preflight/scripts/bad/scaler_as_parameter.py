# target: capability=8.0 processes=2
from data import loader
import torch
def train(model, opt, scaler=None):
    for b in loader():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(b).mean()
        if scaler is not None:
            scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
        else:
            loss.backward(); opt.step()
model = torch.nn.Linear(4, 1).half().cuda()  # expect: P101 error
opt = torch.optim.AdamW(model.parameters())
train(model, opt, torch.amp.GradScaler("cuda"))
