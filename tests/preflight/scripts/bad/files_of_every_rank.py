import os

import torch
import torch.distributed as dist


def save(model, epoch):
    os.mkdir(f"out/{epoch}")  # expect: R405 warning
    torch.save(model.state_dict(), f"out/{epoch}/model.pt")  # expect: R405 warning


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if not os.path.exists("out"):
    os.makedirs("out")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    model(torch.zeros(4, 4)).sum().backward()
    optimizer.step()
    if epoch % 2 == 0:
        save(model.module, epoch)
