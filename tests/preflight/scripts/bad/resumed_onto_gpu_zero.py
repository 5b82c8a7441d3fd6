# target: capability=8.0 processes=4
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--finetune", default="")
args = parser.parse_args()
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.Linear(2, 2).cuda()
if getattr(args, "resume", None):
    net.load_state_dict(torch.load(args.resume, map_location="cuda:0"))  # expect: D201 warning
if args.finetune:
    if args.finetune.startswith("https"):
        state = torch.hub.load_state_dict_from_url(args.finetune, map_location="cpu")
    else:
        state = torch.load(args.finetune, map_location="cuda:1")  # expect: D201 warning
net = torch.nn.parallel.DistributedDataParallel(net)
