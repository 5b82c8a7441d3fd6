import torch

print("available", torch.cuda.is_available(), flush=True)
print(torch.nn.Linear(4, 4).to("cuda"))
