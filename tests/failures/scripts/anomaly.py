import torch
with torch.autograd.detect_anomaly(check_nan=True):
    weight = torch.zeros(1, requires_grad=True)
    (torch.sqrt(weight) * 0 / 0).sum().backward()
