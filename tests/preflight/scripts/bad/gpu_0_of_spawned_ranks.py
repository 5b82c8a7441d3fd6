# target: processes=4 capability=8.0
import argparse

import torch
import torch.multiprocessing as mp


def main(local_rank, args):
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(4, 4).cuda(0)  # expect: D201 warning
    if args.ngpus > 1:
        torch.distributed.init_process_group("nccl", rank=local_rank, world_size=args.ngpus)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])


parser = argparse.ArgumentParser()
parser.add_argument("--ngpus", type=int, default=1)
args = parser.parse_args()
if args.ngpus == 1:
    main(local_rank=0, args=args)
else:
    mp.spawn(main, nprocs=args.ngpus, args=(args,))  # expect: D211 warning
