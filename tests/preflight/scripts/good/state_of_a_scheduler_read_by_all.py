import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def widen(self):
        self.fc = torch.nn.Linear(4, 8)

    def forward(self, x):
        return self.fc(x)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = DDP(Head().cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    if os.path.exists("scheduler.pt"):
        scheduler.load_state_dict(torch.load("scheduler.pt"))
    for _ in range(10):
        x = torch.rand(8, 4, device=rank)
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    if dist.get_rank() == 0:
        torch.save(scheduler.state_dict(), "scheduler.pt")
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    dist.destroy_process_group()


main()
