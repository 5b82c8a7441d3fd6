import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

class LM(nn.Module):
    def __init__(self): super().__init__(); self.emb = nn.Embedding(100, 32); self.rnn = nn.LSTM(32, 32, batch_first=True); self.out = nn.Linear(32, 100)
    def forward(self, x, h=None):
        y, h = self.rnn(self.emb(x), h); return self.out(y), tuple(s.detach() for s in h)
def batches():
    for _ in range(10): yield torch.randint(0, 100, (4, 16)), torch.randint(0, 100, (4, 16))
model = LM().cuda(); opt = torch.optim.Adam(model.parameters())

h = None
for x, y in batches():
    out, h = model(x.cuda(), h)
    loss = F.cross_entropy(out.flatten(0, 1), y.cuda().flatten()); opt.zero_grad(); loss.backward(); opt.step()
