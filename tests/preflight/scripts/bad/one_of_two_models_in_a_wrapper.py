import os
from itertools import cycle

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Silent:
    def report(self):
        print("done")


class Reporter:
    def report(self):
        dist.barrier()  # expect: R404 warning
        print("done")


with open("settings.json", "w") as settings:  # expect: R405 info
    settings.write("{}")
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
critic = torch.nn.Linear(4, 4).cuda()
steps = torch.optim.AdamW(model.parameters())
steps_of_critic = torch.optim.AdamW(critic.parameters())
reporter = Reporter() if dist.get_rank() == 0 else Silent()
data = TensorDataset(torch.zeros(64, 4))
sampler = DistributedSampler(data)  # expect: R403 warning
batches = cycle(DataLoader(data, batch_size=8, sampler=sampler))
for _ in range(1000):
    (batch,) = next(batches)
    model(batch.cuda()).sum().backward()
    steps.step()
    critic(batch.cuda()).sum().backward()
    steps_of_critic.step()  # expect: R406 warning
    reporter.report()
    steps_of_critic.zero_grad()
