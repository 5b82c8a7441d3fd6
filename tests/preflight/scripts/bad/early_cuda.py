import torch
from accelerate import Accelerator
model = torch.nn.Linear(1, 1).cuda()  # expect: D202 warning
acc = Accelerator()
model = acc.prepare(model)
