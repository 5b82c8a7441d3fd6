# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda"))
one = torch.ones(2).cuda()
all_of_them = [torch.zeros_like(one)] * dist.get_world_size()
dist.all_gather(all_of_them, one)  # expect: R411 warning
print(torch.cat(all_of_them))
