"""What is done without ranks stands beside branches that name the rank or wait for all; two switches differ."""
# target: capability=8.0 processes=2

import os

import torch
import torch.distributed as dist
import yaml

with open("config.yaml") as opened:
    config = yaml.safe_load(opened)["train"]
model = torch.nn.Linear(4, 4)
if config.enable_fsdp or config.enable_ddp:
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[local_rank])
if config.enable_ddp and config.pure_bf16:
    model.to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if config.use_fp16:
    scaler = torch.amp.GradScaler("cuda")
    if config.enable_ddp:
        scaler = torch.amp.GradScaler("cuda", init_scale=1024)
for batch in range(8):
    if config.enable_fsdp or config.enable_ddp:
        inputs = torch.ones(4, 4).to(local_rank)
    else:
        inputs = torch.ones(4, 4).to("cuda:0")
    loss = model(inputs).sum()
    if config.use_fp16:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    if config.enable_ddp:
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "model.pt")
        dist.barrier()
    else:
        torch.save(model.state_dict(), "model.pt")
