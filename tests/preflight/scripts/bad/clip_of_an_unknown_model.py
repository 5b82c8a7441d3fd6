# target: capability=8.0 processes=4
"""Model and optimizer come from elsewhere; what is clipped is scaled all the same."""
import torch
from elsewhere import build_loader, build_model, build_optimizer


def train_one_epoch(model, loader, optimizer, scaler, most):
    for samples in loader:
        loss = model(samples).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if most:
            torch.nn.utils.clip_grad_norm_(model.parameters(), most)  # expect: P116 warning
        scaler.step(optimizer)
        scaler.update()


model = build_model()
train_one_epoch(model, build_loader(), build_optimizer(model), torch.cuda.amp.GradScaler(), 1.0)
