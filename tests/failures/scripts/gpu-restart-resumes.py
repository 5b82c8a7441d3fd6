import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32).cuda())
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
start = 0
if os.path.exists("last.pt"):
    start = torch.load("last.pt")["step"] + 1
    print(f"Resuming from last.pt at step {start}", flush=True)
for step in range(start, 12):
    loss = model(torch.randn(8, 32, device="cuda")).pow(2).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    torch.save({"step": step}, "last.pt")
    if step == 6 and attempt == 0:
        torch.zeros(4, device="cuda")[torch.full((2,), 9, device="cuda")].sum().item()
dist.destroy_process_group()
