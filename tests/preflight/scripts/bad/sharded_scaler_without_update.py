# target: capability=8.0
import torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


class Verbose(ShardedGradScaler):
    def report(self):
        print(self.get_scale())


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = Verbose(growth_interval=100)
for step in range(10):
    loss = model(torch.zeros(4, 4).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # expect: P128 error
