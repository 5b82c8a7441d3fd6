import torch
from models import build

generator, critic = build("generator"), build("critic")
optimizer = torch.optim.AdamW([p for p in generator.parameters() if p.requires_grad])
critic_optimizer = torch.optim.AdamW(critic.module.head.parameters())
scaler = torch.cuda.amp.GradScaler()
for step in range(10):
    for_critic = step % 2 == 1
    if not for_critic:
        with torch.cuda.amp.autocast():
            loss = generator(step).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if for_critic:
        with torch.cuda.amp.autocast():
            loss = critic(step).sum()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(critic.module.head.parameters(), 1.0)  # expect: P116 warning
        scaler.step(critic_optimizer)
        scaler.update()
