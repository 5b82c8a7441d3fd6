# target: capability=8.0 processes=4 launch=fp16
import torch
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard

accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
loader = accelerator.prepare([1, 2])
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
