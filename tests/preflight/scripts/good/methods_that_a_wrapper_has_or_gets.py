import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from nets import build

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(build().cuda())
model.named = lambda: "net"
print(model.named(), model.get_extra_state(), model.will_sync_module_buffers())
model.register_full_backward_hook(print)
model._set_static_graph()
print(model.module.forward_features(torch.ones(4, 8)))
# target: capability=8.0 processes=4
