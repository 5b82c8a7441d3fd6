import torch
import torch.distributed as dist
dist.init_process_group("gloo")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.aux = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.used(x)
model = torch.nn.parallel.DistributedDataParallel(Net())
for step in range(3):
    model(torch.randn(4, 8)).mean().backward()
