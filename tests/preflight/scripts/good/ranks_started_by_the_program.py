import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    model(torch.ones(4, 8).cuda()).sum().backward()


def main():
    world = torch.cuda.device_count()
    mp.spawn(work, args=(world,), nprocs=world)


if __name__ == "__main__":
    main()
