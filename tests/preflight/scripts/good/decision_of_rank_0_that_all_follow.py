"""Rank 0 says why before it leaves; the others leave by the same decision, which it has sent them."""

import sys

import torch
import torch.distributed as dist


def begins(rank):
    ok = torch.ones(1).cuda()
    dist.broadcast(ok, 0)
    if not ok.item():
        if rank == 0:
            print("not ready")
            sys.exit(0)
        sys.exit(0)
    dist.barrier()


def trains(rank, epochs):
    for _ in range(epochs):
        ok = torch.ones(1).cuda()
        dist.broadcast(ok, 0)
        if rank == 0 and not ok.item():
            print("stopped")
            break
        if not ok.item():
            break
        dist.barrier()


def ends(rank):
    ok = torch.ones(1).cuda()
    dist.broadcast(ok, 0)
    if rank == 0 and not ok.item():
        print("done")
        return
    if not ok.item() or rank < 0:
        return
    dist.barrier()


dist.init_process_group("nccl", device_id=torch.device("cuda"))
begins(dist.get_rank())
trains(dist.get_rank(), int(sys.argv[1]))
ends(dist.get_rank())
