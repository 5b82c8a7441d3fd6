# target: capability=8.0 processes=4
import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.add_argument("--world_size", type=int, default=4)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl", rank=args.local_rank, world_size=args.world_size)  # expect: R413 warning
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), [args.local_rank])
