# target: capability=8.0 processes=1
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.zeros(8, 2))
DataLoader(data, num_workers=0, prefetch_factor=2)  # expect: R402 warning
DataLoader(data, num_workers=0, prefetch_factor=4)  # expect: R402 error
