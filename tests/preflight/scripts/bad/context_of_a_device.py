import torch

device = torch.device("cuda")
with torch.autocast(device):  # expect: V303 error
    pass
