import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:0", rank=rank, world_size=world)  # expect: D207 warning
    torch.cuda.set_device(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    model(torch.ones(4, 8).cuda()).sum().backward()


def main():
    world = torch.cuda.device_count()
    mp.spawn(work, args=(world,), nprocs=world)  # expect: D211 error


main()
