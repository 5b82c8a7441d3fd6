# target: capability=8.0 processes=4
"""Read with all switches at once the script does not train, which says nothing of the one for ranks."""
import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler

parser = argparse.ArgumentParser()
parser.add_argument("--submission", action="store_true")
parser.add_argument("--launcher", default="none", choices=["none", "pytorch"])
args = parser.parse_args()
if args.launcher == "pytorch":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(4, 4).cuda()
if args.launcher == "pytorch":
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
if args.submission:
    torch.save(model.cuda().state_dict(), "submission.pt")
    sys.exit()
data = torch.zeros(64, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    for batch in DataLoader(data, 8, sampler=RandomSampler(data)):  # expect: R401 warning
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
