import os

import torch


def one_rank(local_rank, port, count):
    os.environ["MASTER_PORT"] = str(port)
    os.environ["RANK"] = str(local_rank)
    torch.cuda.set_device(local_rank)
    torch.distributed.init_process_group("nccl")


def main(num_proc, port):
    if num_proc == 1:
        one_rank(local_rank=0, port=port, count=1)
    else:
        start = torch.multiprocessing.start_processes
        start(one_rank, args=(port, num_proc), nprocs=num_proc, start_method="spawn")


main(torch.cuda.device_count(), os.environ.get("PORT"))
