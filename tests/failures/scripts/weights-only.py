import torch
torch.load('checkpoint.pt')
