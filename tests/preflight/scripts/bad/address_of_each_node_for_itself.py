import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(local, given):
    os.environ["MASTER_ADDR"] = "127.0.0.1"  # expect: D207 warning
    os.environ["MASTER_PORT"] = str(given.port)
    torch.cuda.set_device(local)
    rank = given.node * given.gpus + local
    dist.init_process_group("nccl", rank=rank, world_size=given.nodes * given.gpus)
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--port", type=int, default=29555)
    given = parser.parse_args()
    mp.spawn(work, args=(given,), nprocs=given.gpus)
