# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
import torchmetrics

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2).cuda())
metric = torchmetrics.Accuracy(task="multiclass", num_classes=2).to("cuda")
own = torchmetrics.MeanMetric(sync_on_compute=False)
out = model(torch.ones(4, 8).cuda())
out.sum().backward()
metric.update(out, torch.ones(4, dtype=torch.long).cuda())
if dist.get_rank() == 0:  # expect: R404 info
    print(own.compute())
    print(metric.compute())  # expect: R404 error
