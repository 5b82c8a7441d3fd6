# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist
from elsewhere import build
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("nccl", device_id=torch.device("cuda"))
model = FSDP(build())
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "model.pt")  # expect: R404 error
