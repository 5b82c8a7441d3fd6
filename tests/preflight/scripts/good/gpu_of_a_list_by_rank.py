# target: capability=8.0 processes=4
import os

os.environ["CUDA_VISIBLE_DEVICES"] = str([3, 2, 1, 0][int(os.environ["LOCAL_RANK"])])

import torch

torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("cuda:0"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 4, device="cuda:0")).sum().backward()
optimizer.step()
