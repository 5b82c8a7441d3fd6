# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Run:
    def __init__(self, model):
        self.model, self.epoch = model, 0

    def capture(self):
        weights = {name: value.cpu() for name, value in self.model.module.state_dict().items()}
        return {"epoch": self.epoch, "model": weights}

    def restore(self, path):
        state = torch.load(path)
        self.epoch = state["epoch"] + 1
        self.model.module.load_state_dict(state["model"])


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
run = Run(DistributedDataParallel(torch.nn.Linear(8, 1).cuda()))
if os.path.exists("run.pt"):
    run.restore("run.pt")
run.model(torch.ones(4, 8).cuda()).sum().backward()
if dist.get_rank() == 0:
    torch.save(run.capture(), "run.pt")
