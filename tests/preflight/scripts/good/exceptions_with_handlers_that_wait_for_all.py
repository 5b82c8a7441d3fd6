# target: capability=8.0 processes=4
"""What a handler does for the others, or a loop that tries again, leaves no rank waiting."""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def give_up(error):
    print(error)
    sys.exit(1)


def agree(failed):
    flag = torch.tensor(float(failed)).cuda()
    dist.all_reduce(flag)
    return flag.item() == 0


def check():
    try:
        if rank == 0 and not os.path.exists("index"):
            raise FileNotFoundError("index")
        dist.barrier()
    except FileNotFoundError as error:
        give_up(error)


def check_together():
    try:
        if rank == 0 and not os.path.exists("index"):
            raise FileNotFoundError("index")
        return agree(failed=False)
    except FileNotFoundError:
        return agree(failed=True)


def fetch():
    for wait in range(5):
        try:
            if rank == 0 and not os.path.exists("archive"):
                raise ConnectionError("archive")
            dist.barrier()
            break
        except ConnectionError:
            time.sleep(wait)


def main():
    try:
        if rank == 0 and not os.path.exists("config"):
            raise ValueError("config")
        dist.barrier()
    except ValueError:
        return 1
    return 0


check()
check_together()
fetch()
sys.exit(main())
