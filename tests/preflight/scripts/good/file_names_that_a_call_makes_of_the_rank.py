# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    model(torch.ones(4, 4).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
state = model.state_dict()
plan = split_torch_state_dict_into_shards(state, filename_pattern=f"rank{rank}" + "{suffix}.safetensors")
for name, tensors in plan.filename_to_tensors.items():
    save_file({key: state[key] for key in tensors}, os.path.join("out", name))
