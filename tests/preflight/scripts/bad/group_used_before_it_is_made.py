# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist

first = dist.get_rank() == 0  # expect: R412 warning
dist.barrier()  # expect: R412 warning
dist.init_process_group("nccl", device_id=torch.device("cuda"))
dist.barrier()
if first:
    print("ready")
