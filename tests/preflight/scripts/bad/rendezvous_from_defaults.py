import os
import torch.distributed as dist
def init_distributed(rank, world_size, addr="127.0.0.1", port="29501"):
    os.environ["MASTER_ADDR"] = addr  # of ranks that the script starts itself
    os.environ['MASTER_PORT'] = port  # expect: D207 warning
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
def run(rank, ws):
    init_distributed(rank, ws)
    device = f"cuda:{rank}"
    m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).to(device), device_ids=[rank])
if __name__ == "__main__":
    import torch, torch.multiprocessing as mp
    mp.spawn(run, args=(2,), nprocs=2, join=True)
