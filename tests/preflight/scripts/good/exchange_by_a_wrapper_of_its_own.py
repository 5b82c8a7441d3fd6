# target: capability=8.0 processes=4
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset


class Bucketed(torch.nn.Module):
    """Exchanges gradients in hooks of backward."""

    def __init__(self, module):
        super().__init__()
        self.module, self.require_backward_grad_sync = module, True
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self._exchange)

    def forward(self, x):
        return self.module(x)

    def _exchange(self, parameter):
        if self.require_backward_grad_sync:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Bucketed(torch.nn.Linear(16, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = dataset()
sampler = DistributedSampler(samples, shuffle=False)
loader = iter(DataLoader(samples, batch_size=8, sampler=sampler))
for step in range(1000):
    for part in range(4):
        x, y = next(loader)
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / 4
        model.require_backward_grad_sync = part == 3
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
