from dataclasses import dataclass

import torch
import tyro


@dataclass
class Args:
    use_amp: bool = False


args = tyro.cli(Args)
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = None
if args.use_amp:
    scaler = torch.amp.GradScaler()
for _step in range(10):
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.use_amp):
        loss = model(torch.ones(4)).sum()
    if scaler is not None:
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
