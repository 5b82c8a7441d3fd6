import argparse, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def setup():
    local_rank = int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", rank=local_rank, world_size=world)  # expect: R413 warning
    return local_rank
def main():
    local_rank = setup()
    model = DDP(torch.nn.Linear(4, 1).cuda(local_rank), device_ids=[local_rank])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(30):
        opt.zero_grad()
        model(torch.randn(8, 4).cuda(local_rank)).mean().backward()
        opt.step()
if __name__ == "__main__":
    main()
