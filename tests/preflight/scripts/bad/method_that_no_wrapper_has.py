import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from nets import build

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(build().cuda())
print(model.forward_features(torch.ones(4, 8)))  # expect: C501 warning
# target: capability=8.0 processes=4
