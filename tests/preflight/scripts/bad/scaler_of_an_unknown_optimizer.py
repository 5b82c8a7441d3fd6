# target: processes=4
import os

import torch
import zoo
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(nn.Linear(4, 4).half().cuda())  # expect: P101 warning
optimizer = zoo.optimizer()
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    model(batch).sum().backward()
    scaler.step(optimizer)  # expect: P119 warning
    scaler.update()
