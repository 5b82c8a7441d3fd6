import torch
torch.load('pytorch_model.bin')
