import os

import torch
import torch.distributed as dist
import wandb


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if self.rank == 0:
            self.start()

    def start(self):
        wandb.init(project="plain")

    def fit(self):
        for step in range(100):
            loss = self.model(torch.randn(4, 4, device="cuda")).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            wandb.log({"loss": loss.item()}, step=step)  # expect: R416 error


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        Trainer(dist.get_rank()).fit()
    except KeyboardInterrupt:
        print("stopped")


main()
# target: capability=8.0 processes=4
