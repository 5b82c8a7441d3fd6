import os, torch
local_rank = int(os.environ.get("LOCAL_RANK", 0))
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)
model = torch.nn.Linear(1, 1).to(device)
x = torch.zeros(1).to(f"cuda:{local_rank}")
opt = torch.optim.SGD(model.parameters(), 0.1)
opt.step()
