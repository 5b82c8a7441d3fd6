import torch
from torch import nn



class Attention(nn.Module):
    scale = 0.5

    def forward(self, query):
        return torch.mul(query, self.scale).softmax(-1)


actor, critic = nn.Linear(4, 4).cuda(), nn.Sequential(Attention(), nn.Linear(4, 1)).cuda()
of_actor, of_critic = torch.optim.AdamW(actor.parameters()), torch.optim.AdamW(critic.parameters())
scaler, critic_scaler = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss, value = actor(batch).sum(), critic(batch).sum()
    scaler.scale(loss).backward()
    scaler.step(of_actor)
    scaler.update()
    value.backward()
    critic_scaler.step(of_critic)  # expect: P119 error
    critic_scaler.update()
