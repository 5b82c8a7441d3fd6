import os, torch
world = int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")
else:
    device = torch.device("cuda:0")
model = torch.nn.Linear(1, 1).to(device)
