import torch
from accelerate import Accelerator, DistributedType
from nets import build
from data import loader as make_loader

accelerator = Accelerator()
model, loader = build(), make_loader(8 if accelerator.distributed_type == DistributedType.XLA else 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    accelerator.backward(model.compute_loss(x))  # expect: C501 warning
    optimizer.step()
    optimizer.zero_grad()
accelerator.print(f"{accelerator.num_processes} ranks")
# target: capability=8.0 processes=4
