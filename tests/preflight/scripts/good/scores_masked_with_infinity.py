# target: capability=8.0 processes=4
import math

import torch
from torch.cuda.amp import GradScaler, autocast


class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.scale = width**-0.5

    def forward(self, x, mask):
        scores = torch.matmul(self.q(x), self.k(x).transpose(-2, -1)) / math.sqrt(x.size(-1))
        scores = scores.masked_fill(mask == 0, float("-inf"))
        dots = (self.q(x) @ self.k(x).transpose(-2, -1)) * self.scale
        dots = dots.masked_fill_(mask == 0, -1e4)
        return torch.softmax(scores, -1) @ x + torch.softmax(dots, -1) @ x


model = Attention(8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler()
with autocast():
    loss = model(torch.ones(2, 4, 8).cuda(), torch.ones(4, 4).cuda()).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
