# target: capability=8.0 processes=4
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(args):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    if args.load_step > 0:
        if dist.get_rank() == 0:
            state = torch.load(f"{args.load_step}.pt", map_location="cpu")
            model.module.load_state_dict(state["model"])  # expect: R424 warning
    if args.load_step > 0:
        optimizer.load_state_dict(state["optimizer"])  # expect: R419 warning
    model(torch.ones(4, 8).cuda()).sum().backward()
    optimizer.step()
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "1.pt")


parser = argparse.ArgumentParser()
parser.add_argument("--load_step", type=int, default=-1)
main(parser.parse_args())
