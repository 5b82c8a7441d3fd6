# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from accelerate import Accelerator

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
acc = Accelerator()
model = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), 0.1)
model, opt = acc.prepare(model, opt)
acc.backward(model(torch.ones(4)).sum())
opt.step()
