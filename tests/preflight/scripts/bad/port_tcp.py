import torch.distributed as dist, torch
def init(rank, size):
    torch.cuda.set_device(rank)
    dist.init_process_group(backend="nccl", init_method="tcp://127.0.0.1:23456", rank=rank, world_size=size)  # expect: D207 warning
def main():
    import torch.multiprocessing as mp
    mp.spawn(init, args=(2,), nprocs=2)  # expect: D211 error
main()
