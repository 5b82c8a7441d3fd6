import os

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
data = TensorDataset(torch.randn(64, 4))
batches = BatchSampler(RandomSampler(data), batch_size=8, drop_last=True)
loader = DataLoader(data, batch_sampler=batches)  # expect: R401 warning
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    for (batch,) in loader:
        model(batch.cuda()).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
