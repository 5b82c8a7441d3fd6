# target: capability=8.0 processes=2
import torch
import torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda"))
is_main = dist.get_rank() == 0
if is_main:
    print("saves")
    dist.barrier()  # expect: R404 error
