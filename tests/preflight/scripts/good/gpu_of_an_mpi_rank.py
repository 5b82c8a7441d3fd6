# target: capability=8.0 processes=4
import os

import torch
from mpi4py import MPI
from torch import nn

rank = MPI.COMM_WORLD.Get_rank()
os.environ["CUDA_VISIBLE_DEVICES"] = f"{rank % 8}"
torch.distributed.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=["cuda"])
torch.save(model.state_dict(), f"model_{MPI.COMM_WORLD.Get_rank()}.pt")
