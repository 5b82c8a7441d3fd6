# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
total = torch.cuda.FloatTensor([1.0, 2.0])
dist.all_reduce(total)
total = torch.FloatTensor([1.0, 2.0]).cuda()
dist.all_reduce(total)
total = torch.Tensor([1.0, 2.0]).to("cuda")
dist.all_reduce(total)
total = Tensor([1.0, 2.0])
dist.all_reduce(total)
counts = torch.LongTensor([1, 2])
counts = counts.cuda()
dist.all_reduce(counts)
held = torch.FloatTensor([3.0])
gloo = dist.new_group(backend="gloo")
dist.all_reduce(held, group=gloo)
