# target: capability=8.0 processes=4
"""A class of the script's own unscales fp16 gradients."""
import torch


class Scaler(torch.amp.GradScaler):
    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)


model = torch.nn.Linear(2, 2).cuda().half()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = Scaler("cuda")
for _ in range(10):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(2, 2, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
