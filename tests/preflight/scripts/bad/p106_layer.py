import torch
from torch import nn
class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 4, dtype=torch.bfloat16)  # expect: P106 error, P110 warning
        self.out = nn.Linear(4, 4)
model = Dec().cuda()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x in get_loader():
    scaler.scale(model(x)).backward()
    scaler.step(opt); scaler.update()
