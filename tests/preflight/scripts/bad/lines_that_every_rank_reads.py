# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                yield torch.tensor([float(word) for word in line.split()])


dist.init_process_group("nccl", device_id=torch.device("cuda"))
model = DDP(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
lines = DataLoader(Lines("train.txt"), batch_size=8)  # expect: R401 warning
for x in lines:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
