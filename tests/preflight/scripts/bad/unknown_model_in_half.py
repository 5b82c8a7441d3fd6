"""What builds the model cannot be read, and its last word is half()."""
# target: capability=8.0 processes=2

import torch
from somewhere import build_model

model = build_model("large").to("cuda").half()  # expect: P101 warning
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda"):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
    scaler.step(optimizer)
    scaler.update()
