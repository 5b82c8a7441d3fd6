import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Linear(4, 4)

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


class Other(Net):
    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=True)


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
net = DDP(Net(), find_unused_parameters=True)
static = DDP(Other(), find_unused_parameters=True, static_graph=True)
for step in range(3):
    net(torch.zeros(4, 4)).sum().backward()
    static(torch.zeros(4, 4)).sum().backward()
