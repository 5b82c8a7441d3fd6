# target: processes=8
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def setup():
    os.environ.setdefault("MASTER_PORT", "29500")
    local_rank = int(os.environ.get("LOCAL_RANK") or 0)
    dist.init_process_group("nccl")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank), local_rank


def main():
    device, local_rank = setup()
    model = nn.Linear(4, 4).to(device)
    model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for batch in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.ones(4, device="cuda")).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
