# target: capability=8.0 processes=4
"""unscale_ of an optimizer that comes from elsewhere."""
import torch
from elsewhere import build_loader, build_model, build_optimizer

model = build_model()
optimizer = build_optimizer(model)
scaler = torch.cuda.amp.GradScaler()
for samples in build_loader():
    loss = model(samples).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
