import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

class Ds(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        x = torch.randn(8)
        if torch.utils.data.get_worker_info() is not None:
            return x
        return x.cuda()
m = nn.Linear(8, 4).cuda()
with torch.no_grad():
    for x in DataLoader(Ds(), batch_size=8, num_workers=4): print(m(x.cuda()).sum())
