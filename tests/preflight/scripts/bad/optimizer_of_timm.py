# target: processes=4
import os

import timm.optim
import torch
import zoo
from torch import nn

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Linear(4, 4).half().cuda()  # expect: P102 warning
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
student = zoo.build(os.environ["MODEL"]).half()  # expect: P102 warning
other = timm.optim.create_optimizer(zoo.options(), student)
for batch in range(3):
    model(student(batch)).sum().backward()
    optimizer.step()
    other.step()
