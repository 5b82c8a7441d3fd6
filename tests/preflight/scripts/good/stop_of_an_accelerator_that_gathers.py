# target: capability=8.0 processes=4 args=
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

a = Accelerator()
m = nn.Linear(4, 2)
o = torch.optim.SGD(m.parameters(), 0.1)
ds = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
m, o, tl, vl = a.prepare(m, o, DataLoader(ds, 8, shuffle=True), DataLoader(ds, 8))
best = 9e9
bad = 0
for e in range(9):
    for x, y in tl:
        a.backward(F.cross_entropy(m(x), y))
        o.step()
        o.zero_grad()
    ls = []
    for x, y in vl:
        with torch.no_grad():
            ls.append(a.gather_for_metrics(F.cross_entropy(m(x), y, reduction="none")))
    v = torch.cat(ls).mean().item()
    if v < best:
        best = v
        bad = 0
        a.save_state("b")
    else:
        bad += 1
    if bad > 2:
        break
