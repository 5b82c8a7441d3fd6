# target: processes=4 capability=8.0
import argparse
import os

import torch
from cluster import on_nodes


def main(args):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.distributed.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).to("cuda:0")  # expect: D201 error
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), args.lr)
    for _ in range(10):
        model(torch.ones(4, 4).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    on_nodes(2)(main)(parser.parse_args())
