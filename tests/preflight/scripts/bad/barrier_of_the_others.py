import torch
import torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda"))
if dist.get_rank() == 0:
    print("rank 0 goes on")
else:
    dist.barrier()  # expect: R404 warning
