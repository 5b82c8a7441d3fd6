# target: capability=8.0 processes=4
import os

import torch

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device("cuda:{}".format(rank))
torch.distributed.init_process_group("nccl")
old = torch.load("x.pt", map_location={"cuda:0": "cuda:%d" % rank})
new = torch.load("x.pt", map_location="cuda:{gpu}".format(gpu=rank))
with torch.cuda.device(rank):
    net = torch.nn.Linear(2, 2).to("cuda:%s" % rank)
torch.set_default_device("cuda")
