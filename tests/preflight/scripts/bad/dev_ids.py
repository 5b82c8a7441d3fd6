import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(2, 2).cuda()
    model = DDP(model, device_ids=[0])  # expect: D201 warning
    opt = torch.optim.SGD(model.parameters(), 0.1)
    opt.step()
main()
