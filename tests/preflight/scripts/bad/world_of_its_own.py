"""A number of ranks that the script writes down overrules the launch's, whatever that is."""

import os

import torch

os.environ["WORLD_SIZE"] = "2"  # expect: D207 warning
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
