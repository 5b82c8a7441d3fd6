import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024, device="cuda"))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(12):
    if attempt == 0 and step == 4:
        torch.empty(1 << 40, device="cuda")
    loss = model(torch.randn(64, 1024, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
print("training complete")
