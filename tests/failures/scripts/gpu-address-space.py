import torch

print("torch", torch.__version__, flush=True)
x = torch.ones(1024, device="cuda")
print(x.sum().item())
